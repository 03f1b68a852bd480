# One image for web, worker and beat; compose.yaml says which is which.
FROM python:3.12-slim AS build
WORKDIR /srv/openvibe
COPY requirements.txt requirements-multilingual.txt requirements-s3.txt ./
# `docker build --build-arg LOCKS="requirements.txt requirements-multilingual.txt"` adds the multilingual embedder.
ARG LOCKS=requirements.txt
RUN python -m venv /opt/venv \
 && for lock in $LOCKS; do \
      /opt/venv/bin/pip install --no-cache-dir --only-binary :all: --require-hashes -r $lock || exit 1; done

FROM python:3.12-slim
RUN useradd --system --create-home --uid 10001 openvibe
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    DJANGO_SETTINGS_MODULE=openvibe.settings OPENVIBE_VAR=/var/lib/openvibe
WORKDIR /srv/openvibe
COPY --from=build /opt/venv /opt/venv
COPY . .
RUN install -d -m 0700 -o openvibe -g openvibe /var/lib/openvibe /var/lib/openvibe/home /var/lib/openvibe/static
USER openvibe
EXPOSE 8000
# Of the web server; compose.yaml says how the others are asked. /healthz answers whatever host it is asked by, over HTTP too.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=6 \
  CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8000, timeout=3); c.request('GET', '/healthz'); exit(c.getresponse().status != 200)"]
CMD ["python", "manage.py", "serve", "--only", "web", "--host", "0.0.0.0", "--port", "8000"]
