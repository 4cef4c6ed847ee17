# SPDX-License-Identifier: MIT
# Counts the tests in a JUnit file that ctest wrote: "passed failed skipped". A program that prints
# Criterion's summary counts as the tests it ran and skipped, any other as one. One that failed without a
# failing test in its summary (a leak found at exit, a crash, a timeout, a program that was not
# built) counts as one failure more.
function close_case() {
    if (state == "") return
    if (state == "skip") {
        skipped++
    } else if (state == "run" && !summary) {
        passed++
    } else {
        passed += tested - bad
        failed += state == "run" || bad > 0 ? bad : 1
    }
    state = ""
}
/<testcase / {
    close_case()
    state = /status="run"/ ? "run" : "fail"
    tested = bad = summary = 0
}
/<skipped message="(SKIP_|Disabled)/ { state = "skip" }
/Synthesis: Tested: [0-9]+ \| Passing: [0-9]+ \| Failing: [0-9]+ \| Crashing: [0-9]+/ {
    line = $0
    sub(/.*Synthesis: Tested: /, "", line)
    split(line, part, /[^0-9]+/)
    summary = 1
    tested += part[1]
    bad += part[3] + part[4]
}
/^(\t*<system-out>)?\[SKIP\]/ { skipped++ }
END { close_case(); printf "%d %d %d\n", passed, failed, skipped }
