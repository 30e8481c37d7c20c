{{- define "berth.name" -}}
{{- if contains "berth" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-berth" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "berth.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "berth.labels" -}}
{{ include "berth.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "berth.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "berth.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
# Not at each start: it opens every file of the volume to the group, and a large volume takes minutes.
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "berth.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* Whether the Service sends requests to the gateways alone. */}}
{{- define "berth.gatewaysOnly" -}}
{{- with .Values.gateway }}
{{- if and .enabled (ge (int (ternary .autoscaling.min .replicas .autoscaling.enabled)) 2) }}true{{ end }}
{{- end }}
{{- end }}

{{/* Whether the server has its database on its own volume, as a trial does. */}}
{{- define "berth.isTrial" -}}
{{- if not .Values.database.secret }}true{{ end }}
{{- end }}

{{/*
Fails where values contradict each other. The last case would leave all data behind in the other database, such as after
an upgrade whose `--values` were forgotten.
*/}}
{{- define "berth.checkDatabase" -}}
{{- $isTrial := include "berth.isTrial" . }}
{{- if and $isTrial .Values.gateway.enabled }}
{{- fail "gateway.enabled needs database.secret: a trial has one server with its own database" }}
{{- end }}
{{- if and (not $isTrial) (not .Values.secretKey.secret) }}
{{- fail "database.secret needs secretKey.secret: all servers of a database use the same secret key. To make one: kubectl create secret generic berth-key --from-literal=key=\"$(openssl rand -base64 48)\"" }}
{{- end }}
{{- $set := lookup "apps/v1" "StatefulSet" .Release.Namespace (printf "%s-server" (include "berth.name" .)) }}
{{- if $set }}
{{- $before := true }}
{{- range (first $set.spec.template.spec.containers).env }}{{ if eq .name "DATABASE_URL" }}{{ $before = false }}{{ end }}{{ end }}
{{- if and $isTrial (not $before) }}
{{- fail "database.secret is missing: this release uses a PostgreSQL of yours. Pass its values again (--values, or --reuse-values)" }}
{{- end }}
{{- if and $before (not $isTrial) }}
{{- fail "database.secret: this release is a trial, with its data in its own database. Install another release for production" }}
{{- end }}
{{- end }}
{{- end }}

{{/* What every program of the chart needs to reach the database. */}}
{{- define "berth.databaseEnv" -}}
{{- if not (include "berth.isTrial" .) }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef: { name: {{ .Values.database.secret | quote }}, key: {{ .Values.database.key | quote }} }
{{- end }}
{{- if .Values.secretKey.secret }}
- name: BERTH_SECRET_KEY
  valueFrom:
    secretKeyRef: { name: {{ .Values.secretKey.secret | quote }}, key: {{ .Values.secretKey.key | quote }} }
{{- end }}
# A folder of its own in the volume: the volume itself belongs to root, and its group may write.
- { name: BERTH_DATA_DIR, value: /data/berth }
- { name: BERTH_DATABASE_CONNECTIONS, value: {{ .Values.database.connections | quote }} }
{{- end }}

{{/* A set of servers or gateways. `role`, `set` (its values) and `root`. */}}
{{- define "berth.servers" -}}
{{- $name := printf "%s-%s" (include "berth.name" .root) .role }}
{{- $set := .set }}
{{- with .root }}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  labels:
    {{- include "berth.labels" . | nindent 4 }}
    app.kubernetes.io/component: {{ $.role }}
spec:
  serviceName: {{ $name }}
  {{- if not (and $set.autoscaling $set.autoscaling.enabled) }}
  replicas: {{ ternary 1 $set.replicas (eq (include "berth.isTrial" .) "true") }}
  {{- end }}
  # Each has a journal of its own; none waits for another.
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      {{- include "berth.selector" . | nindent 6 }}
      app.kubernetes.io/component: {{ $.role }}
  # What is in the volumes of a set that shrinks is needed when it grows again.
  persistentVolumeClaimRetentionPolicy: { whenDeleted: {{ $set.storage.whenUninstalled }}, whenScaled: Retain }
  template:
    metadata:
      labels:
        {{- include "berth.labels" . | nindent 8 }}
        app.kubernetes.io/component: {{ $.role }}
        {{- if or (eq $.role "gateway") (not (include "berth.gatewaysOnly" .)) }}
        berth-serves: requests
        {{- end }}
      {{- if .Values.kubernetes.enabled }}
      annotations:
        # A server reads it at its start.
        checksum/clusters: {{ .Values.kubernetes.clusters | toJson | sha256sum }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "berth.name" . }}
      automountServiceAccountToken: {{ .Values.kubernetes.enabled }}
      enableServiceLinks: false
      # The drain, then the requests in progress, then up to ten seconds to settle and close.
      terminationGracePeriodSeconds: {{ add .Values.drainSeconds .Values.finishSeconds 12 }}
      securityContext:
        {{- include "berth.podSecurity" . | nindent 8 }}
      {{- with .Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      containers:
        - name: berth
          image: {{ include "berth.image" . | quote }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args: [serve]
          env:
            {{- include "berth.databaseEnv" . | nindent 12 }}
            - { name: BERTH_HOST, value: 0.0.0.0 }
            - { name: BERTH_PORT, value: "8420" }
            {{- if not (include "berth.isTrial" .) }}
            - { name: BERTH_PEER_PORT, value: "8421" }
            - name: BERTH_PEER_HOST
              valueFrom:
                fieldRef: { fieldPath: status.podIP }
            {{- end }}
            - { name: BERTH_ROLE, value: {{ ternary "all" "gateway" (eq $.role "server") }} }
            - { name: BERTH_DRAIN_SECONDS, value: {{ .Values.drainSeconds | quote }} }
            - { name: BERTH_FINISH_SECONDS, value: {{ .Values.finishSeconds | quote }} }
            {{- if .Values.relay.enabled }}
            - { name: BERTH_RELAY_PORTS, value: "{{ .Values.relay.ports.from }}-{{ .Values.relay.ports.to }}" }
            {{- end }}
            {{- with .Values.relay.publicHost }}
            - { name: BERTH_RELAY_PUBLIC_HOST, value: {{ . | quote }} }
            {{- end }}
            {{- if .Values.ingress.enabled }}
            - { name: BERTH_PUBLIC_URL, value: "https://{{ .Values.ingress.host }}" }
            {{- if not (hasKey .Values.settings "BERTH_TRUST_PROXY") }}
            # Who asks, and that they came by https, is what the ingress says.
            - { name: BERTH_TRUST_PROXY, value: "1" }
            {{- end }}
            {{- with .Values.ingress.appsDomain }}
            - { name: BERTH_APPS_DOMAIN, value: {{ . | quote }} }
            {{- end }}
            {{- end }}
            {{- if .Values.kubernetes.enabled }}
            - { name: BERTH_KUBERNETES, value: /etc/berth/clusters.yaml }
            {{- end }}
            {{- range $key, $value := .Values.settings }}
            - { name: {{ $key }}, value: {{ $value | quote }} }
            {{- end }}
            {{- with .Values.secretSettings }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - { name: http, containerPort: 8420 }
            - { name: peers, containerPort: 8421 }
          # Five minutes: a busy node may need one.
          startupProbe:
            httpGet: { path: /healthz, port: http }
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 150
          livenessProbe:
            httpGet: { path: /healthz, port: http }
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: { path: /readyz, port: http }
            periodSeconds: 3
            timeoutSeconds: 3
            failureThreshold: 2
          resources:
            {{- toYaml $set.resources | nindent 12 }}
          securityContext:
            {{- include "berth.containerSecurity" . | nindent 12 }}
          volumeMounts:
            - { name: data, mountPath: /data }
            - { name: tmp, mountPath: /tmp }
            {{- if .Values.kubernetes.enabled }}
            - { name: clusters, mountPath: /etc/berth, readOnly: true }
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- if .Values.kubernetes.enabled }}
        - name: clusters
          configMap: { name: {{ include "berth.name" . }}-rentals }
        {{- end }}
      {{- with $set.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $set.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        {{- if $set.affinity }}
        {{- toYaml $set.affinity | nindent 8 }}
        {{- else }}
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels:
                    {{- include "berth.selector" . | nindent 20 }}
                    app.kubernetes.io/component: {{ $.role }}
        {{- end }}
  volumeClaimTemplates:
    - metadata:
        name: data
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $set.storage.className }}
        storageClassName: {{ . | quote }}
        {{- end }}
        resources:
          requests: { storage: {{ $set.storage.size }} }
---
# The names of the pods.
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels:
    {{- include "berth.labels" . | nindent 4 }}
    app.kubernetes.io/component: {{ $.role }}
spec:
  clusterIP: None
  selector:
    {{- include "berth.selector" . | nindent 4 }}
    app.kubernetes.io/component: {{ $.role }}
  ports:
    - { name: http, port: 8420, targetPort: http }
{{- if .Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels:
    {{- include "berth.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .Values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "berth.selector" . | nindent 6 }}
      app.kubernetes.io/component: {{ $.role }}
{{- end }}
{{- end }}
{{- end }}
