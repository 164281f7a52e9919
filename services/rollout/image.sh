# For the image: the libraries that vLLM loads.
set -eu
apt-get update
apt-get install -y --no-install-recommends libgomp1 libnuma1
rm -rf /var/lib/apt/lists/*
