# For the image: what programs may import, in environments named sandbox-* beside the service's own, as the build argument
# RUNTIMES names them: "numpy math science bigcodebench"; and compilers for other languages, as TOOLCHAINS names them:
# "gcc g++ default-jdk-headless nodejs golang rustc".
set -eu
for runtime in ${RUNTIMES:-numpy math}; do
  python3 -m venv --without-pip "/opt/sandbox-$runtime"
  pip --python "/opt/sandbox-$runtime/bin/python" install --no-deps -r "/tmp/image/$runtime/requirements.lock"
done
case " ${RUNTIMES:-} " in *" bigcodebench "*) # NLTK's data are in no package: without them 17 tasks fail
  timeout 120 /opt/sandbox-bigcodebench/bin/python -m nltk.downloader -q \
    -d "$(echo /opt/sandbox-bigcodebench/lib/python3*/site-packages)/nltk_data" \
    stopwords words averaged_perceptron_tagger vader_lexicon punkt || echo "NLTK's data could not be fetched" >&2 ;;
esac
if [ -n "$TOOLCHAINS" ]; then
  apt-get update
  apt-get install -y --no-install-recommends $TOOLCHAINS
  rm -rf /var/lib/apt/lists/*
fi
