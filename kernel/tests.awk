# SPDX-License-Identifier: MIT
# Makes the list of tests for ktap.c from the sources of tests: Test(suite, name) of each.
BEGIN { print "/* Made by tests.awk. */\n#include <criterion/criterion.h>\n" }
match($0, /^Test\([a-z_0-9]+, *[a-z_0-9]+\)/) {
    split(substr($0, RSTART + 5, RLENGTH - 6), part, /, */)
    names[++count] = part[1] "__" part[2]
    shown[count] = part[1] "." part[2]
}
END {
    for (i = 1; i <= count; i++) print "void " names[i] "(void);"
    print "\nconst struct weir_ktap_test weir_ktap_tests[] = {"
    for (i = 1; i <= count; i++) print "\t{\"" shown[i] "\", " names[i] "},"
    print "\t{NULL, NULL},\n};"
}
