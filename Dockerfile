# The program and nothing else: it is static, and has time zones and certificate authorities in itself (a directory mounted at
# /etc/ssl/certs is used instead of its own). `make image` builds the program and then this; a release does the same.
FROM scratch
ARG TARGETPLATFORM=linux/amd64
COPY ${TARGETPLATFORM}/grapnel /usr/bin/grapnel
COPY --chown=65532:65532 deploy/image/lib/ /var/lib/
USER 65532:65532
WORKDIR /var/lib/grapnel
ENV GRAPNEL_LISTEN=0.0.0.0:8420 \
    GRAPNEL_STORE=sqlite:/var/lib/grapnel/grapnel.db \
    GRAPNEL_KEY_FILE=/var/lib/grapnel/admin.key \
    PATH=/usr/bin
EXPOSE 8420
VOLUME /var/lib/grapnel
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/usr/bin/grapnel", "health"]
ENTRYPOINT ["/usr/bin/grapnel"]
CMD ["serve"]
