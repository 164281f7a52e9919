# Stands in for the alertmanager image where no image registry is reachable: the distribution's Alertmanager, started as
# in that image.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update && apt-get install -y --no-install-recommends prometheus-alertmanager && rm -rf /var/lib/apt/lists/* \
    && install -d -o prometheus /alertmanager
USER prometheus
ENTRYPOINT ["/usr/bin/prometheus-alertmanager"]
CMD ["--config.file=/etc/alertmanager/alertmanager.yml", "--storage.path=/alertmanager"]
