# The server: `docker build -t perfci .`, then `docker run -p 127.0.0.1:8787:8787 -v perfci:/data perfci`.
# Benchmarks are measured elsewhere and uploaded: neither torch nor git is in here.
# By digest, since a tag names another image every few weeks; .github/dependabot.yml proposes newer ones.
ARG PYTHON_IMAGE=python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY requirements requirements
COPY perfci perfci
COPY web web
RUN python3 -m venv /opt/perfci && python3 -m venv /opt/perfci-build
RUN /opt/perfci-build/bin/pip install --no-cache-dir --require-hashes -r requirements/release.txt
RUN /opt/perfci-build/bin/python -m build --no-isolation --wheel --outdir /src/dist
RUN /opt/perfci/bin/pip install --no-cache-dir --require-hashes -r requirements/server.txt
RUN /opt/perfci/bin/pip install --no-cache-dir --no-deps --no-index /src/dist/*.whl
RUN mkdir -p /data

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/perfci /opt/perfci
COPY --from=build --chown=10001:10001 /data /data
ENV PATH=/opt/perfci/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/data \
    PYTHONUNBUFFERED=1 \
    GIT_PYTHON_REFRESH=quiet \
    PERFCI_DB=sqlite:////data/perfci.db \
    PERFCI_SERVER_HOST=0.0.0.0 \
    PERFCI_SERVER_LOG=json \
    PERFCI_SERVER_MIGRATE=true
WORKDIR /data
VOLUME /data
USER 10001:10001
EXPOSE 8787
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8787/healthz', timeout=4)"]
CMD ["perfci", "serve"]
