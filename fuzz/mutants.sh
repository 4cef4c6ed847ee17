#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Can the oracles fail? Plants one bug after the other in a copy of the tree and says how long the
# replayer, which makes inputs from the corpus by the mutator, takes to find it. Not 0 if one is not
# found in time.
#
#   fuzz/mutants.sh [--seconds N] [--only NAME] [--work DIR]
#
# A bug is: name | target | file | an expression of perl on the whole file.
source "$(dirname "$0")/../ci/lib.sh"
SECONDS_EACH=60 ONLY='' WORK=build-fuzz-mutants
while [ $# -gt 0 ]; do
    case $1 in
        --seconds) SECONDS_EACH=${2:?} ;;
        --only) ONLY=${2:?} ;;
        --work) WORK=${2:?} ;;
        *) sed -n '3,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift 2
done

BUGS=$(cat <<'LIST'
join forgets the later point|range|core/range.h|s/point = weir_max\(point, weir_node_point\(&range->node\[prev\]\)\);//
a search overlooks a bin|range|core/range.h|s/set->rows >> 1 >> row;/set->rows >> 2 >> row;/
the row's bit stays set|range|core/range.h|s/if \(cols == 0\) set->rows &= [^;]*;//
aligned starts may lie outside|range|core/range.c|s/return at <= end && end - at >= bytes;/return end - node->addr >= bytes;/
growing loses the index|range|core/range.c|s/if \(node\[index\]\.kind == WEIR_LIVE\) weir_range_index/if (node[index].kind == WEIR_SHADOW) weir_range_index/
the kept block goes to any stream|pool|core/block.c|s/ \|\| pool->kept\.stream != stream//
another stream's memory counts as usable|pool|core/order.c|s/if \(lane == after \|\| weir_order_passed/if (lane != after || weir_order_passed/
uses on other streams are forgotten|pool|core/limbo.c|s/if \(node->b == 0\) \{/if (true) {/
moves carry no point|pool|core/back.c|s/point = weir_max\(point, weir_node_point_for\(pool, &pool->range\.node\[old\], ask\)\);//
shadows are unmapped too early|pool|core/shadow.c|s/return lane == WEIR_LANE_NONE \|\| weir_order_passed[^;]*;/(void)lane;\n    return true;/
trim does not wait|pool|core/trim.c|s/return lane == WEIR_LANE_NONE \|\| weir_order_passed[^;]*;/(void)lane;\n    (void)pool;\n    return true;/
the limit is off by one granule|pages|core/place.c|s/return limit <= used \? 0 : \(limit - used\)/return limit <= used ? 0 : (limit - used + pool->device.info.granule_bytes)/
pinned memory is rescued|pool|core/rescue.c|s/ \|\| piece->pins != 0 \|\| piece->granules < 2/ || piece->granules < 2/
a failed map is not undone|pages|core/back.c|s/if \(status != WEIR_OK\) plan_undo\(pool, plan, calls\);//
a lost range is handed out|pages|core/back.c|s/pool->range\.node\[index\]\.kind = WEIR_LOST_RANGE;//
a rescue copies half|pool|core/rescue.c|s/copy\(device->self, with->window, piece->to, bytes\)/copy(device->self, with->window, piece->to, bytes \/ 2)/
a resize is not counted|pages|core/hold.c|s/weir_block_account\(pool, index, old_bytes, old_requested, requested\);//
a domain lends its memory|pool|core/pool.c|s/if \(!zone_is_empty\(pool, zone\)\) return WEIR_BUSY;//
a retired stream takes no last point|pool|core/order.c|s/weir_status status = weir_order_record\(order, index\);\n    if \(status != WEIR_OK && status != WEIR_LOST\) return status;\n    lane_end/lane_end/
the lock is left held|pool|core/hold.c|s/(weir_status status = index == 0 \? WEIR_NOT_FOUND : weir_block_pin\(pool, index\);\n)    weir_pool_unlock\(pool\);/$1    if (status != WEIR_NOT_FOUND) weir_pool_unlock(pool);/
thousandths are printed without zeros|conf|hosted/conf_number.c|s/%03" PRIu32/%" PRIu32/
a limit above the device is kept|conf|hosted/conf_check.c|s/(pool->limit_bytes = )[^;]*;/$1conf->limit.bytes;/
a repeated key is taken|conf|hosted/conf.c|s/if \(\(reader->seen & bit\) != 0\)/if (false)/
time may go back|trace|tools/weir/trace.c|s/op->time_us < trace->ops\[trace->count - 1\]\.time_us/op->time_us + 1 < trace->ops[trace->count - 1].time_us/
a slot is used again too early|trace|tools/weir/trace.c|s/op->kind == WEIR_TRACE_DONE \|\| \(op->kind == WEIR_TRACE_FREE && !op->side\)/op->kind == WEIR_TRACE_FREE/
a cut gzip file is taken|trace|tools/weir/text.c|s/if \(status != Z_STREAM_END\)\n        return/if (false)\n        return/
LIST
)

need_build
mkdir -p "$WORK"
WORK=$(cd "$WORK" && pwd)
rm -rf "$WORK/tree"
mkdir "$WORK/tree"
tar cf - --exclude='./build*' --exclude='./.git' --exclude="./${WORK##*/}" . |
    tar xmf - -C "$WORK/tree" # newer than what an earlier run has built
cmake -S "$WORK/tree" -B "$WORK/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEIR_TESTS=OFF \
    -DWEIR_FUZZ=ON -DWEIR_CUDA=OFF -DWEIR_WERROR=OFF -DWEIR_ASSERT=OFF >"$WORK/cmake.log"
targets=(fuzz_pool fuzz_pages fuzz_range fuzz_conf fuzz_trace fuzz_seed_make)
ninja -C "$WORK/build" -j "$JOBS" --quiet "${targets[@]}"

rm -rf "$WORK/seeds"
for target in pool pages range trace; do
    mkdir -p "$WORK/seeds/$target"
    "$WORK/build/bin/fuzz_seed_make" "$target" "$WORK/seeds/$target" tests/data/traces/*.csv.gz
done
mkdir -p "$WORK/seeds/conf"
fuzz/seed_conf.sh "$WORK/seeds/conf"
for target in pool pages range conf trace; do
    for kind in corpus seeds crashes; do
        [ ! -d "fuzz/$kind/$target" ] || cp fuzz/$kind/"$target"/* "$WORK/seeds/$target/"
    done
done

found=0 missed=0
while IFS='|' read -r name target file change; do
    [ -z "$ONLY" ] || [ "$ONLY" = "$name" ] || continue
    cp "$file" "$WORK/tree/$file"
    perl -0pi -e "$change" "$WORK/tree/$file"
    if cmp -s "$file" "$WORK/tree/$file"; then
        echo "$name: the change no longer fits $file"
        missed=$((missed + 1))
        continue
    fi
    ninja -C "$WORK/build" -j "$JOBS" --quiet "fuzz_$target" >"$WORK/build.log" 2>&1 ||
        { cat "$WORK/build.log"; die "$name: does not build"; }
    begun=$(date +%s%N) rc=0
    # First what is in git and of the traces, then what the mutator makes of it.
    (cd "$WORK" && { "build/bin/fuzz_$target" "seeds/$target" &&
        timeout "$SECONDS_EACH" "build/bin/fuzz_$target" --random 1000000000 \
            "seeds/$target"; }) >"$WORK/run.log" 2>&1 || rc=$?
    took=$((($(date +%s%N) - begun) / 1000000))
    if [ "$rc" = 124 ]; then
        printf '%-45s %-6s NOT FOUND in %s s\n' "$name" "$target" "$SECONDS_EACH"
        missed=$((missed + 1))
    else
        by=seeds
        ! grep -q crash.made "$WORK/run.log" || by=mutator
        printf '%-45s %-6s %7d ms  by the %s: %s\n' "$name" "$target" "$took" "$by" \
            "$(grep -vm1 -e 'died of it' -e ' runs, ' "$WORK/run.log" | sed 's|^.*/||' | cut -c1-70)"
        found=$((found + 1))
    fi
    cp "$file" "$WORK/tree/$file"
done <<<"$BUGS"
echo "$((found + missed)) bugs planted, $found found, $missed not"
[ "$missed" = 0 ]
