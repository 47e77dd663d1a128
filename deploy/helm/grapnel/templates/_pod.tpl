{{- define "grapnel.name" -}}
{{- ternary .Release.Name (printf "%s-grapnel" .Release.Name) (contains "grapnel" .Release.Name) | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "grapnel.selector" -}}
app.kubernetes.io/name: grapnel
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "grapnel.match" -}}
matchLabels: {{- include "grapnel.selector" . | nindent 2 }}
{{- end }}

{{- define "grapnel.labels" -}}
{{ include "grapnel.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "grapnel.pod" -}}
metadata:
  labels: {{- include "grapnel.selector" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "grapnel.name" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: grapnel
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve]
      ports: [{name: http, containerPort: 8420}]
      env:
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: GRAPNEL_ADVERTISE, value: "$(POD_IP):8420"}
        {{- range $name, $value := .Values.settings }}
        - {name: GRAPNEL_{{ upper $name }}, value: {{ (kindIs "slice" $value | ternary (join "," $value) (toString $value)) | quote }}}
        {{- end }}
        {{- if eq .Values.store "postgres" }}
        - {name: GRAPNEL_STORE, valueFrom: {secretKeyRef: {name: {{ required "secret: the name of a Secret with store, admin-key and session-key" .Values.secret }}, key: store}}}
        {{- end }}
        {{- with .Values.secret }}
        # GRAPNEL_KEY is for commands in the pod, in the place of the key file of a node with SQLite.
        - {name: GRAPNEL_KEY, valueFrom: {secretKeyRef: {name: {{ . }}, key: admin-key}}}
        - {name: GRAPNEL_KEY_FILE, value: ""}
        - {name: GRAPNEL_ADMIN_KEY, valueFrom: {secretKeyRef: {name: {{ . }}, key: admin-key}}}
        - {name: GRAPNEL_SESSION_KEY, valueFrom: {secretKeyRef: {name: {{ . }}, key: session-key}}}
        - {name: MASTER_KEY, valueFrom: {secretKeyRef: {name: {{ . }}, key: master-key, optional: true}}}
        {{- end }}
      # A database can take long to migrate.
      startupProbe: {httpGet: {path: /livez, port: http}, periodSeconds: 2, timeoutSeconds: 2, failureThreshold: 450}
      # A full disk or a database that is away make a pod not ready. Restarting it would not help, so liveness asks for less.
      readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 3, timeoutSeconds: 2, failureThreshold: 2}
      livenessProbe: {httpGet: {path: /livez, port: http}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6}
      lifecycle: {preStop: {sleep: {seconds: {{ .Values.preStopSeconds }}}}}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      {{- if eq .Values.store "sqlite" }}
      volumeMounts: [{name: data, mountPath: /var/lib/grapnel}]
      {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if eq .Values.store "postgres" }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector: {{- include "grapnel.match" . | nindent 8 }}
  {{- end }}
{{- end }}
