"""python -P -m harness.hardware DEVICE THREADS DTYPES: measure ceilings, print them as JSON."""

import sys

from harness.hardware.calibration import measure

if __name__ == "__main__":
    ceilings = measure(sys.argv[1], int(sys.argv[2]), sys.argv[3].split(","))
    print(ceilings.model_dump_json())
