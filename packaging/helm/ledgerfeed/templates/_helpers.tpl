{{- define "ledgerfeed.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The prefix of all names. It leaves room for -networkpolicy and the like. */}}
{{- define "ledgerfeed.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "ledgerfeed.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "ledgerfeed.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "ledgerfeed.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ledgerfeed.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ledgerfeed.labels" -}}
{{ include "ledgerfeed.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "ledgerfeed.image" -}}
{{- $repository := required "image.repository: the image is made from the source, and brought to a registry of yours" .Values.image.repository }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (required "image.tag or image.digest: which version" .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "ledgerfeed.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "ledgerfeed.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The deployments that are on, by name, with the defaults filled in. As JSON. */}}
{{- define "ledgerfeed.deployments" -}}
{{- $all := dict }}
{{- range $name, $own := .Values.deployments }}
{{- if and $own (dig "enabled" true $own) }}
{{- $_ := set $all $name (mergeOverwrite (deepCopy $.Values.defaults) (deepCopy $own)) }}
{{- end }}
{{- end }}
{{- toJson $all }}
{{- end }}

{{/* All roles that some deployment has. As JSON. */}}
{{- define "ledgerfeed.roles" -}}
{{- $roles := list }}
{{- range include "ledgerfeed.deployments" . | fromJson }}
{{- $roles = concat $roles .roles }}
{{- end }}
{{- $roles | uniq | sortAlpha | toJson }}
{{- end }}

{{/* How many connections to PostgreSQL all pods have at most, also while they are
replaced: 12 each, and those of its roles, but no more than 16 and one for each role.
LEDGERFEED_CONNECTIONS may allow others. */}}
{{- define "ledgerfeed.connections" -}}
{{- $each := dict "api" 15 "project" 10 "deliver" 7 "console" 6 "relay" 5 "ingest" 6 "ingest-api" 8 }}
{{- $sum := 0 }}
{{- range include "ledgerfeed.deployments" . | fromJson }}
{{- $pod := 12 }}
{{- range .roles }}
{{- $pod = add $pod (get $each .) }}
{{- end }}
{{- $pod = min $pod (add 16 (len .roles)) }}
{{- $pods := .replicas }}
{{- if .autoscaling.enabled }}
{{- $pods = .autoscaling.maxReplicas }}
{{- end }}
{{- $sum = add $sum (mul $pod (add $pods .strategy.maxSurge)) }}
{{- end }}
{{- $sum }}
{{- end }}

{{/* An environment variable from a Secret: list of the variable, the reference, and the
name of its value. */}}
{{- define "ledgerfeed.fromSecret" -}}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef:
      name: {{ required (printf "%s.name: a Secret with %s" (index . 2) (index . 0)) (index . 1).name }}
      key: {{ (index . 1).key }}
{{- end }}

{{/* The settings of a pod with some roles: dict of root, roles, settings, extraEnv. */}}
{{- define "ledgerfeed.env" -}}
{{- $secrets := .root.Values.secrets -}}
{{ include "ledgerfeed.fromSecret" (list "DATABASE_URL" $secrets.database "secrets.database") }}
{{- if or (has "deliver" .roles) (has "console" .roles) }}
{{ include "ledgerfeed.fromSecret" (list "LEDGERFEED_SECRET_KEY" $secrets.secretKey "secrets.secretKey") }}
{{- end }}
{{- if and (or (has "api" .roles) (has "console" .roles) (and (has "project" .roles) (dig "LEDGERFEED_WITNESSES" .root.Values.settings.LEDGERFEED_WITNESSES .settings))) $secrets.signingKey.name }}
{{ include "ledgerfeed.fromSecret" (list "LEDGERFEED_SIGNING_KEY" $secrets.signingKey "secrets.signingKey") }}
{{- end }}
{{- if and (has "deliver" .roles) $secrets.smtp.name }}
{{ include "ledgerfeed.fromSecret" (list "LEDGERFEED_SMTP_URL" $secrets.smtp "secrets.smtp") }}
{{- end }}
{{- if and (has "console" .roles) $secrets.oidc.name }}
{{ include "ledgerfeed.fromSecret" (list "LEDGERFEED_OIDC_CLIENT_SECRET" $secrets.oidc "secrets.oidc") }}
{{- end }}
{{- if has "relay" .roles }}
{{ include "ledgerfeed.fromSecret" (list "LEDGERFEED_RELAY_URL" $secrets.relay "secrets.relay") }}
{{- end }}
{{- if has "ingest" .roles }}
{{ include "ledgerfeed.fromSecret" (list "LEDGERFEED_INGEST_URL" $secrets.ingest "secrets.ingest") }}
{{- end }}
{{- if $secrets.traces.name }}
{{ include "ledgerfeed.fromSecret" (list "OTEL_EXPORTER_OTLP_HEADERS" $secrets.traces "secrets.traces") }}
{{- end }}
{{- $settings := dict "LEDGERFEED_ADMIN_LISTEN" ":9090" "LEDGERFEED_LISTEN" ":8080" "LEDGERFEED_CONSOLE_LISTEN" ":8081" "LEDGERFEED_INGEST_LISTEN" ":8082" }}
{{- if .root.Values.tls.secret }}
{{- $_ := set $settings "LEDGERFEED_TLS_CERT" "/etc/ledgerfeed/tls/tls.crt" }}
{{- $_ := set $settings "LEDGERFEED_TLS_KEY" "/etc/ledgerfeed/tls/tls.key" }}
{{- end }}
{{- range $name, $value := merge $settings .settings .root.Values.settings }}
{{- if $value }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- with .extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What the Pod Security Standard "restricted" asks of a pod, and more. */}}
{{- define "ledgerfeed.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "ledgerfeed.container" -}}
image: {{ include "ledgerfeed.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Peers: what is public, as the program itself sees it (delivery/attempt). */}}
{{- define "ledgerfeed.public" -}}
- ipBlock:
    cidr: 0.0.0.0/0
    except:
      - 0.0.0.0/8
      - 10.0.0.0/8
      - 100.64.0.0/10
      - 127.0.0.0/8
      - 168.63.129.16/32
      - 169.254.0.0/16
      - 172.16.0.0/12
      - 192.0.0.0/24
      - 192.0.2.0/24
      - 192.31.196.0/24
      - 192.52.193.0/24
      - 192.88.99.0/24
      - 192.168.0.0/16
      - 192.175.48.0/24
      - 198.18.0.0/15
      - 198.51.100.0/24
      - 203.0.113.0/24
      - 224.0.0.0/4
      - 240.0.0.0/4
      {{- range .Values.networkPolicy.except }}
      {{- if not (contains ":" .) }}
      - {{ . }}
      {{- end }}
      {{- end }}
- ipBlock:
    cidr: 2000::/3
    except:
      - 2001::/23
      - 2001:db8::/32
      - 2002::/16
      - 2620:4f:8000::/48
      - 3fff::/20
      {{- range .Values.networkPolicy.except }}
      {{- if contains ":" . }}
      - {{ . }}
      {{- end }}
      {{- end }}
{{- end }}

{{/* Rules of egress to the cluster's DNS and to PostgreSQL. */}}
{{- define "ledgerfeed.egress" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
  {{- with .Values.networkPolicy.dns }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
- {{ include "ledgerfeed.destination" .Values.networkPolicy.database | nindent 2 | trim }}
{{- end }}

{{/* A rule of egress: dict of to and ports. */}}
{{- define "ledgerfeed.destination" -}}
ports:
  {{- range .ports }}
  - {port: {{ . }}, protocol: TCP}
  {{- end }}
{{- with .to }}
to: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The host of an address: list of the address and the name of its setting. */}}
{{- define "ledgerfeed.host" -}}
{{- $url := required (printf "settings.%s: how it is reached, such as https://ledgerfeed.example.com" (index . 1)) (index . 0) }}
{{- (urlParse $url).hostname }}
{{- end }}

{{/* Mounts and volumes of a pod: dict of root and own. /tmp is for what operators pipe
into commands. */}}
{{- define "ledgerfeed.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .root.Values.tls.secret }}
- {name: tls, mountPath: /etc/ledgerfeed/tls, readOnly: true}
{{- end }}
{{- with .own }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "ledgerfeed.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
{{- with .root.Values.tls.secret }}
- name: tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .own }}
{{ toYaml . }}
{{- end }}
{{- end }}
