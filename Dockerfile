# One image for every process: `proxy`, `control-plane`, `migrate` (the command picks one).
# It runs as an unprivileged user and writes nothing but its standard output, so its root can be read-only.

FROM node:26-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
# The embedded database and the runtime from npm are for machines; here both come from elsewhere.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund && npm cache clean --force

FROM node:26-slim
ENV NODE_ENV=production MALLOC_ARENA_MAX=1
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY package.json LICENSE ./
COPY core core
COPY config config
COPY migrations migrations
COPY control-plane control-plane
COPY proxy proxy
COPY cli cli
USER node
EXPOSE 8080
# Which process this is decides the address; compose.yaml and other orchestrators set HEALTH_URL for it.
ENV HEALTH_URL=http://127.0.0.1:8080/healthz
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=3 \
  CMD ["node", "-e", "fetch(process.env.HEALTH_URL).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "cli/main.ts"]
CMD ["proxy"]
