{{- define "ebbtide.selector" -}}
app.kubernetes.io/name: ebbtide
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ebbtide.labels" -}}
{{ include "ebbtide.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "ebbtide.image" -}}
{{- $repository := required "image.repository is not set, and no image is published: build one with `make image`, push it to your registry, and set image.repository. Nothing was installed." .Values.image.repository -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The configuration, refused where it is missing or was never filled in. */}}
{{- define "ebbtide.config" -}}
{{- if not .Values.config }}
{{- fail "config is empty: put the keys of ebbtide.yaml under config (`ebbtide init` writes them from your nodes). Nothing was installed." }}
{{- end }}
{{- $text := toYaml .Values.config }}
{{- if contains "fill-me-in" $text }}
{{- fail "config still has the value fill-me-in: `ebbtide doctor` names the keys. Nothing was installed." }}
{{- end }}
{{- $cluster := .Values.config.cluster | default dict }}
{{- $_ := required "config.cluster.name is not set: it is the tag of every instance and must not change later. Nothing was installed." $cluster.name }}
{{- if ne ($cluster.kind | default "simulator") "kubernetes" }}
{{- fail "config.cluster.kind is not kubernetes: such a release would only simulate. Nothing was installed." }}
{{- end }}
{{- $text }}
{{- end }}

{{- define "ebbtide.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "ebbtide.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "ebbtide.storeVariable" -}}
- name: STORE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.store.existingSecret }}
      key: {{ .Values.store.key }}
{{- end }}

{{/* A job of one command, before anything else of the release is there. Call with root, name, hooks, weight, args. */}}
{{- define "ebbtide.job" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "ebbtide.labels" .root | nindent 4 }}
  annotations:
    helm.sh/hook: {{ .hooks }}
    helm.sh/hook-weight: {{ .weight | quote }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 3
  activeDeadlineSeconds: 600
  template:
    metadata:
      labels:
        app.kubernetes.io/name: ebbtide-{{ .name }}
        app.kubernetes.io/instance: {{ .root.Release.Name }}
    spec:
      restartPolicy: Never
      {{- with .root.Values.jobs.serviceAccountName }}
      serviceAccountName: {{ . }}
      {{- end }}
      automountServiceAccountToken: false
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- include "ebbtide.podSecurity" .root | nindent 8 }}
      {{- with .root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .name }}
          image: {{ include "ebbtide.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: {{ toJson .args }}
          env:
            {{- include "ebbtide.storeVariable" .root | nindent 12 }}
            - name: CLUSTER_NAME
              value: {{ .root.Values.config.cluster.name | quote }}
            {{- with .root.Values.config.state_table }}
            - name: STATE_TABLE
              value: {{ . | quote }}
            {{- end }}
            {{- with .root.Values.config.logs_table }}
            - name: LOGS_TABLE
              value: {{ . | quote }}
            {{- end }}
            {{- with .root.Values.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          securityContext:
            {{- include "ebbtide.containerSecurity" .root | nindent 12 }}
          resources:
            {{- toYaml .root.Values.resources | nindent 12 }}
          volumeMounts:
            - name: tmp
              mountPath: /tmp
      volumes:
        - name: tmp
          emptyDir:
            medium: Memory
            sizeLimit: 64Mi
{{- end }}

{{- define "ebbtide.gateVariables" -}}
{{- if .Values.gate.enabled -}}
- name: GATE_SERVICE
  value: "{{ .Release.Namespace }}/{{ .Release.Name }}-gate"
- name: GATE_NAMESPACES
  value: "{{ join "," .Values.gate.namespaces }}"
{{- end -}}
{{- end }}
