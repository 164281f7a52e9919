# For the image: what programs may import, in environments named sandbox-* beside the service's own, and compilers for
# other languages, as the build argument TOOLCHAINS names them: "gcc g++ default-jdk-headless nodejs golang rustc".
set -eu
for runtime in numpy math; do
  python3 -m venv --without-pip "/opt/sandbox-$runtime"
  pip --python "/opt/sandbox-$runtime/bin/python" install --no-deps -r "/tmp/image/$runtime/requirements.lock"
done
if [ -n "$TOOLCHAINS" ]; then
  apt-get update
  apt-get install -y --no-install-recommends $TOOLCHAINS
  rm -rf /var/lib/apt/lists/*
fi
