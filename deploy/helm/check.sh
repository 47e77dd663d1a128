#!/bin/sh
# Renders the chart in its two forms, and holds both against the schemas of Kubernetes and its pod security standard "restricted".
# Needs helm and kubeconform in $TOOLS, Go, and Python with venv; the schemas are in a Python package.
set -eu
cd "$(dirname "$0")/../.."
work=$PWD/bin/chart version=1.37
if [ ! -e "$work/schemas/_definitions.json" ]; then
	rm -rf "$work"
	python3 -m venv "$work/venv"
	"$work/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes-validate==1.37.0
	# The schemas refer to each other by addresses of the documentation; here they refer to files.
	cp -r "$work"/venv/lib/python3*/site-packages/kubernetes_validate/kubernetes-json-schema/v$version.0-local-strict "$work/schemas"
	sed -i "s|\"/api/_definitions.json|\"file://$work/schemas/_definitions.json|" "$work"/schemas/*.json
fi
check() {
	echo "chart with $*"
	"$TOOLS/helm" lint --quiet --strict --kube-version $version deploy/helm/grapnel "$@"
	"$TOOLS/helm" template hooks --kube-version $version deploy/helm/grapnel "$@" >"$work/manifests.yaml"
	# A ServiceMonitor is of Prometheus' operator, and has no schema here.
	"$TOOLS/kubeconform" -strict -summary -skip ServiceMonitor \
		-schema-location "$work/schemas/{{ .ResourceKind }}{{ .KindSuffix }}.json" "$work/manifests.yaml"
	(cd tools/podsecurity && go run .) <"$work/manifests.yaml"
}
check --set store=sqlite
check --set store=postgres,secret=grapnel,settings.public_url=https://hooks.example.com \
	--set metrics.serviceMonitor=true,metrics.keySecret.name=grapnel,metrics.keySecret.key=metrics-key \
	--set ingress.enabled=true,ingress.tlsSecret=hooks-tls
if "$TOOLS/helm" template hooks --kube-version $version deploy/helm/grapnel --set store=postgres >/dev/null 2>&1; then
	echo "a chart with postgres and no secret must be refused" >&2
	exit 1
fi
