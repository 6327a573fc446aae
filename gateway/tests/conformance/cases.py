"""Runs Autobahn's cases against a server, and prints how many of each category it passes."""

import asyncio
import os
import sys
from collections import Counter

from kosoku import FailureError, run_fuzzingclient
from kosoku._report_assets import CaseCategories

# 9: how fast large messages are, beyond the largest that a gateway takes. 12, 13: compression, which it does not offer.
LEFT_OUT = ["9.*", "12.*", "13.*"]


async def results(address):
    try:
        return await run_fuzzingclient(address, None, LEFT_OUT, concurrency=4)
    except FailureError as failure:
        return failure.results


def verdict(case):
    if not case.passed:
        return "failed"
    return case.behavior.value.lower()


def main():
    cases = asyncio.run(results(f"ws://{sys.argv[1]}"))
    counts = Counter((case.case_id.split(".")[0], verdict(case)) for case in cases)
    columns = ["ok", "non-strict", "informational", "failed"]
    print("| |", " | ".join(columns), "|\n|---|" + "---:|" * len(columns))
    for category in sorted({category for category, _ in counts}, key=int):
        row = [str(counts[category, column]) for column in columns]
        print(f"| {category} {CaseCategories[category]} |", " | ".join(row), "|")
    for case in cases:
        if not case.passed:
            print(f"{case.case_id}: {case.result} {case.result_close}", file=sys.stderr)
    passed = sum(case.passed for case in cases)
    print(f"{passed} passed, {len(cases) - passed} failed")
    return int(passed < len(cases) or passed < 200)


code = main()
sys.stdout.flush()
sys.stderr.flush()
# Not sys.exit: the runner has threads of its own, which abort the process where they find the interpreter half gone.
os._exit(code)
