# For the image: what programs may import, in environments named sandbox-* beside the service's own, and compilers for
# other languages, as the build argument TOOLCHAINS names them: "gcc g++ default-jdk-headless nodejs golang rustc".
set -eu
python3 -m venv --without-pip /opt/sandbox-numpy
pip --python /opt/sandbox-numpy/bin/python install --no-deps -r /tmp/image/numpy/requirements.lock
if [ -n "$TOOLCHAINS" ]; then
  apt-get update
  apt-get install -y --no-install-recommends $TOOLCHAINS
  rm -rf /var/lib/apt/lists/*
fi
