# The server: `docker build -t perfci .`, then `docker run -p 127.0.0.1:8787:8787 -v perfci:/data perfci`.
# Benchmarks are measured elsewhere and uploaded: neither torch nor git is in here.
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY perfci perfci
COPY web web
RUN python3 -m venv /opt/perfci
RUN /opt/perfci/bin/pip install --no-cache-dir --constraint constraints.txt '.[login,postgres]'
RUN mkdir -p /data

FROM python:3.11-slim
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
