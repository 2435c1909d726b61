# Three images from one file: broker (the last, so the default), demo and tests.
#   docker build -t oncelog .
# Any base with Python 3.11 or newer and venv will do: --build-arg BASE=...
# The version of the image (there is no .git here): --build-arg VERSION=0.1.0
# Behind a proxy with its own certificate: --secret id=ca,src=/path/to/ca-bundle.pem
ARG BASE=python:3.13-slim

FROM ${BASE} AS dependencies
WORKDIR /src
RUN python3 -m venv /opt/oncelog
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY pyproject.toml ./
# Third-party packages, in a layer that our own changes do not invalidate.
RUN --mount=type=secret,id=ca,target=/run/ca.pem \
    if [ -s /run/ca.pem ]; then export PIP_CERT=/run/ca.pem; fi; \
    python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
        > dependencies.txt \
    && /opt/oncelog/bin/pip install -r dependencies.txt

# The wheel with its hot modules compiled. The compiler stays in this stage.
FROM ${BASE} AS compile
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# python.org's images contain the headers of their Python; those of Debian's are a package.
RUN headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))') \
    && missing="$(command -v gcc >/dev/null || echo gcc libc6-dev) $([ -e "$headers/Python.h" ] || echo python3-dev)" \
    && { [ "$missing" = ' ' ] || { apt-get update && apt-get install -y --no-install-recommends $missing; }; } \
    && python3 -m venv /opt/build
COPY pyproject.toml hatch_build.py README.md LICENSE NOTICE ./
COPY broker broker
COPY client client
COPY oncelog oncelog
COPY pipeline pipeline
COPY protocol protocol
ARG VERSION=
ENV SETUPTOOLS_SCM_PRETEND_VERSION_FOR_ONCELOG=$VERSION
RUN --mount=type=secret,id=ca,target=/run/ca.pem \
    if [ -s /run/ca.pem ]; then export PIP_CERT=/run/ca.pem; fi; \
    HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 /opt/build/bin/pip wheel --no-deps -w /wheel .

FROM dependencies AS build
COPY --from=compile /wheel /wheel
RUN /opt/oncelog/bin/pip install --no-deps /wheel/*.whl

FROM build AS build-tests
RUN --mount=type=secret,id=ca,target=/run/ca.pem \
    if [ -s /run/ca.pem ]; then export PIP_CERT=/run/ca.pem; fi; \
    /opt/oncelog/bin/pip install "$(echo /wheel/*.whl)[test]"

FROM build AS build-demo
RUN --mount=type=secret,id=ca,target=/run/ca.pem \
    if [ -s /run/ca.pem ]; then export PIP_CERT=/run/ca.pem; fi; \
    /opt/oncelog/bin/pip install "$(echo /wheel/*.whl)[demo]" \
    && /opt/oncelog/bin/pip install --no-deps Lifetimes

FROM ${BASE} AS base
ENV PATH=/opt/oncelog/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --uid 1000 --create-home appuser

FROM base AS tests
COPY --from=build-tests /opt/oncelog /opt/oncelog
WORKDIR /app
COPY pyproject.toml ./
COPY tests tests
USER appuser
CMD ["python", "-m", "pytest", "-p", "no:cacheprovider", "-m", "compose", "tests/integration"]

FROM base AS demo
COPY --from=build-demo /opt/oncelog /opt/oncelog
WORKDIR /home/appuser
USER appuser
CMD ["python", "-m", "oncelog.pipeline.demo"]

FROM base AS broker
ARG VERSION=
LABEL org.opencontainers.image.title="oncelog" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.description="A Kafka-compatible broker, complete in exactly-once semantics" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/oncelog /opt/oncelog
# The defaults of the apache/kafka image; KAFKA_... variables override them.
RUN mkdir -p /etc/kafka /var/lib/kafka/data && chown appuser /var/lib/kafka/data \
    && printf '%s\n' 'listeners=PLAINTEXT://:9092' 'advertised.listeners=PLAINTEXT://localhost:9092' \
        'log.dirs=/var/lib/kafka/data' > /etc/kafka/server.properties
USER appuser
EXPOSE 9092
VOLUME ["/var/lib/kafka/data"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s CMD ["oncelog", "health"]
ENTRYPOINT ["oncelog"]
CMD ["serve", "--config", "/etc/kafka/server.properties"]
