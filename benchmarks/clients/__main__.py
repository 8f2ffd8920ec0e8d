"""One piece of work by one client, in this process: prints the seconds that it took, and the CPU seconds, as JSON.

python -m benchmarks.clients CLIENT WORK ADDRESS TOPIC COUNT         ours produce 127.0.0.1:9092 t 100000
"""

import importlib
import json
import sys
import time

if __name__ == "__main__":
    client, work, address, topic, count = sys.argv[1:]
    function = getattr(importlib.import_module(f"benchmarks.clients.{client}"), work)
    cpu_before = time.process_time()
    seconds = function(address, topic, int(count))
    print(json.dumps([seconds, time.process_time() - cpu_before]))
