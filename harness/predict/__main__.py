"""python -P -m harness.predict THREADS DTYPES: measure this processor, print it as JSON."""

import json
import sys

from harness.predict.local import measure

if __name__ == "__main__":
    found = {
        dtype: measure(int(sys.argv[1]), dtype).model_dump(mode="json")  # type: ignore[arg-type]
        for dtype in sys.argv[2].split(",")
    }
    print(json.dumps(found))
