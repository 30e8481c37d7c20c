/** The Helm chart: every choice of its values gives objects that belong together, and wrong values are named. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { readSettings } from '../src/server/settings.ts'
import { chart, helm, whyNoHelm } from './lab/helm.ts'
import { needs } from './needs.ts'

needs('helm')

const reason = whyNoHelm()

interface KubernetesObject {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly labels: Record<string, string>; readonly annotations?: object }
  // oxlint-disable-next-line typescript/no-explicit-any -- the kinds differ
  readonly spec: any
}

const secrets = { database: { secret: 'db' }, secretKey: { secret: 'key' } }
const everything = {
  ...secrets,
  gateway: { enabled: true, autoscaling: { enabled: true, outstandingMetric: 'berth_outstanding' } },
  ingress: { enabled: true, host: 'gpu.example.com', appsDomain: 'apps.example.com', tlsSecret: 'tls' },
  serviceMonitor: { enabled: true, keySecret: 'operator' },
  relay: { publicHost: 'relay.example.com', ports: { from: 30_000, to: 30_003 } },
}

function template(values: object): KubernetesObject[] {
  const { ok, output } = helm(['template', 'prod', chart, ...flagsOf(values)])
  if (!ok) throw new Error(output)
  return parseAllDocuments(output).map((document) => document.toJS() as KubernetesObject)
}

function flagsOf(values: object): string[] {
  if (Object.keys(values).length === 0) return []
  return [
    '--set-json',
    Object.entries(values)
      .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
      .join(','),
  ]
}

function only(objects: readonly KubernetesObject[], kind: string, name: string): KubernetesObject {
  const found = objects.filter((one) => one.kind === kind && one.metadata.name === name)
  expect(found).toHaveLength(1)
  return found[0] as KubernetesObject
}

/** The sets whose pods the Service for requests selects. */
function servedBy(objects: readonly KubernetesObject[]): string[] {
  const selector = Object.entries(only(objects, 'Service', 'prod-berth').spec.selector as Record<string, string>)
  return objects
    .filter(({ kind }) => kind === 'StatefulSet' || kind === 'Job')
    .filter(({ spec }) => selector.every(([name, value]) => spec.template.metadata.labels[name] === value))
    .map(({ metadata }) => metadata.name)
    .toSorted()
}

/** The plain settings of a set of pods, as the server reads them; those from secrets and fields with stand-ins. */
function settingsOf({ spec }: KubernetesObject): Record<string, string> {
  const env = spec.template.spec.containers[0].env as Array<{ name: string; value?: string }>
  const standIns: Record<string, string> = {
    DATABASE_URL: 'postgresql://db/berth',
    BERTH_SECRET_KEY: 'x'.repeat(32),
    BERTH_PEER_HOST: '10.0.0.5',
  }
  return Object.fromEntries(env.map(({ name, value }) => [name, value ?? standIns[name] ?? '']))
}

describe.skipIf(reason !== null)(`the Helm chart${reason === null ? '' : ` (skipped: ${reason})`}`, () => {
  test('has no faults that Helm finds', () => {
    const linted = helm(['lint', chart, ...flagsOf(secrets)])
    expect(linted).toMatchObject({ ok: true })
  })

  test('names values that are wrong or contradict each other', () => {
    const faults: Array<[object, string]> = [
      [{ database: { secret: 'db' } }, 'database.secret needs secretKey.secret'],
      [{ gateway: { enabled: true } }, 'gateway.enabled needs database.secret'],
      [{ ...secrets, server: { replicas: 0 } }, '/server/replicas'],
      [{ ...secrets, settings: { BERTH_HOTS: 'x', lower: 'y' } }, 'lower'],
      [{ ...secrets, ingress: { enabled: true } }, '/ingress/host'],
      [{ ...secrets, relay: { ports: { from: 30_000, to: 40_000 } } }, 'relay.ports'],
      [{ ...secrets, serviceMonitor: { enabled: true } }, '/serviceMonitor/keySecret'],
    ]
    for (const [values, named] of faults) {
      const { ok, output } = helm(['template', 'prod', chart, ...flagsOf(values)])
      expect([ok, output]).toEqual([false, expect.stringContaining(named)])
    }
  })

  test('without values: a trial with one server, whose database and secret key are on its volume (issue 31, 13)', () => {
    expect(helm(['lint', chart])).toMatchObject({ ok: true })
    const objects = template({})
    const { spec } = only(objects, 'StatefulSet', 'prod-berth-server')
    expect(spec.replicas).toBe(1)
    expect(spec.volumeClaimTemplates).toHaveLength(1)
    const settings = settingsOf({ spec } as KubernetesObject)
    expect(readSettings(settings)).toMatchObject({ databaseUrl: undefined, secretKey: undefined, role: 'all' })
    expect(settings['BERTH_DATA_DIR']).toMatch(/^\/data\//)
    expect(objects.filter(({ kind }) => kind === 'Job')).toEqual([])
    expect(only(objects, 'Service', 'prod-berth-relay').spec.type).toBe('ClusterIP')
  })

  test('with the two secrets: two servers with peers, a relay, a budget for disruptions, and no gateway', () => {
    const objects = template(secrets)
    const server = only(objects, 'StatefulSet', 'prod-berth-server')
    expect(server.spec.replicas).toBe(2)
    expect(readSettings(settingsOf(server))).toMatchObject({
      role: 'all',
      databaseUrl: 'postgresql://db/berth',
      peers: { host: '0.0.0.0', port: 8421, publicHost: '10.0.0.5' },
      relay: { ports: { from: 30_000, to: 30_063 } },
      drainMs: 10_000,
      finishMs: 60_000,
    })
    expect(objects.map(({ kind }) => kind).toSorted()).toEqual([
      'Job',
      'NetworkPolicy',
      'PodDisruptionBudget',
      'Service',
      'Service',
      'Service',
      'ServiceAccount',
      'StatefulSet',
    ])
    expect(only(objects, 'Job', 'prod-berth-migrate-1').metadata.annotations).toMatchObject({
      'helm.sh/hook': 'pre-install,pre-upgrade',
    })
  })

  test('pods are not root, cannot write to their root, and have no token', () => {
    const sets = template(everything).filter(({ kind }) => kind === 'StatefulSet' || kind === 'Job')
    expect(sets).toHaveLength(3)
    for (const { spec } of sets) {
      const pod = spec.template.spec
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } })
      expect(pod.containers[0].securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
      expect([pod.automountServiceAccountToken, pod.enableServiceLinks]).toEqual([false, false])
    }
  })

  test('with everything: gateways take the requests and scale, servers relay, both are watched', () => {
    const objects = template(everything)
    const gateway = only(objects, 'StatefulSet', 'prod-berth-gateway')
    expect(gateway.spec).not.toHaveProperty('replicas')
    expect(readSettings(settingsOf(gateway))).toMatchObject({
      role: 'gateway',
      publicUrl: 'https://gpu.example.com',
      relay: { publicHost: 'relay.example.com' },
    })
    // Else the ingress would be the client of all requests, and https would be unknown.
    expect(settingsOf(gateway)['BERTH_TRUST_PROXY']).toBe('1')
    const twice = template({ ...everything, settings: { BERTH_TRUST_PROXY: '2' } })
    expect(settingsOf(only(twice, 'StatefulSet', 'prod-berth-gateway'))['BERTH_TRUST_PROXY']).toBe('2')
    expect(settingsOf(only(template(secrets), 'StatefulSet', 'prod-berth-server'))).not.toHaveProperty(
      'BERTH_TRUST_PROXY',
    )
    expect(servedBy(objects)).toEqual(['prod-berth-gateway'])
    const component = 'app.kubernetes.io/component'
    const relay = only(objects, 'Service', 'prod-berth-relay').spec
    expect(relay.selector[component]).toBe('server')
    expect(relay.ports.map(({ port }: { port: number }) => port)).toEqual([30_000, 30_001, 30_002, 30_003])
    const scaler = only(objects, 'HorizontalPodAutoscaler', 'prod-berth-gateway').spec
    expect(scaler.scaleTargetRef.name).toBe('prod-berth-gateway')
    expect(scaler.metrics.map(({ type }: { type: string }) => type)).toEqual(['Pods', 'Resource'])
    const hosts = only(objects, 'Ingress', 'prod-berth').spec.rules.map(({ host }: { host: string }) => host)
    expect(hosts).toEqual(['gpu.example.com', '*.apps.example.com'])
    // Each pod once: by the Services with the names of the pods.
    const { matchLabels, matchExpressions } = only(objects, 'ServiceMonitor', 'prod-berth').spec.selector
    const watched = objects.filter(
      ({ kind, metadata: { labels } }) =>
        kind === 'Service' &&
        Object.entries(matchLabels).every(([name, value]) => labels[name] === value) &&
        matchExpressions.every(({ key, values }: { key: string; values: string[] }) =>
          values.includes(labels[key] ?? ''),
        ),
    )
    expect(watched.map(({ metadata }) => metadata.name).toSorted()).toEqual(['prod-berth-gateway', 'prod-berth-server'])
  })

  test('a single gateway shares the requests with the servers, so that an update leaves no gap', () => {
    expect(servedBy(template(secrets))).toEqual(['prod-berth-server'])
    const both = template({ ...secrets, gateway: { enabled: true, replicas: 1 } })
    expect(servedBy(both)).toEqual(['prod-berth-gateway', 'prod-berth-server'])
    expect(servedBy(template({ ...secrets, gateway: { enabled: true, replicas: 2 } }))).toEqual(['prod-berth-gateway'])
  })

  test('rentals in the cluster: the rights of the role that is tested, for the pods of the release', () => {
    const clusters = [{ name: 'here', region: 'eu-west', prices: { 'NVIDIA-L4': '0.70' } }]
    const objects = template({ ...secrets, kubernetes: { enabled: true, clusters } })
    const tested = parseAllDocuments(readFileSync('deploy/kubernetes/role.yaml', 'utf8')).map(
      (document) => document.toJS() as KubernetesObject & { rules: unknown },
    )
    for (const kind of ['ClusterRole', 'Role']) {
      const made = only(objects, kind, 'prod-berth-rentals') as KubernetesObject & { rules: unknown }
      expect(made.rules).toEqual(tested.find((one) => one.kind === kind)?.rules)
    }
    const binding = only(objects, 'ClusterRoleBinding', 'prod-berth-rentals') as KubernetesObject & {
      subjects: object[]
    }
    expect(binding.subjects).toEqual([{ kind: 'ServiceAccount', name: 'prod-berth', namespace: 'default' }])
    const policies = parseAllDocuments(
      readFileSync('deploy/kubernetes/policy.yaml', 'utf8')
        .replaceAll('serviceaccount:berth:berth', 'serviceaccount:default:prod-berth')
        .replaceAll('berth-tenants', 'prod-berth-rentals-tenants')
        .replaceAll('berth-namespaces', 'prod-berth-rentals-namespaces'),
    ).map((document) => document.toJS() as KubernetesObject)
    expect(policies).toHaveLength(4)
    for (const { kind, metadata, spec } of policies) expect(only(objects, kind, metadata.name).spec).toEqual(spec)
    const { spec } = only(objects, 'StatefulSet', 'prod-berth-server')
    expect(spec.template.spec.automountServiceAccountToken).toBe(true)
    const map = only(objects, 'ConfigMap', 'prod-berth-rentals') as KubernetesObject & { data: Record<string, string> }
    expect(parse(map.data['clusters.yaml'] ?? '')).toEqual({ clusters })
  })

  test('has the version of the program', () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
    const described = parse(readFileSync(path.join(chart, 'Chart.yaml'), 'utf8')) as Record<string, string>
    expect([described['version'], described['appVersion']]).toEqual([version, version])
  })
})
