import { expect, test } from 'vitest'
import { emptyWorkload, programOf } from '../../domain/workload.ts'
import { podWeights, SHARED_FOLDER } from '../../contract/pod-weights.ts'
import { sampleSpec } from '../conformance-bench.ts'
import { parseClusters } from './config.ts'
import { namespaceOf, podNameOf, readExternalId } from './names.ts'
import { podObjects, type PodOrder } from './pod-spec.ts'
import { whyNoDiskFor } from './weights.ts'

const read = parseClusters(
  JSON.stringify({ clusters: [{ name: 'lab', region: 'eu-1', prices: { x: '1' }, runtimeClass: 'nvidia' }] }),
  '/',
)
const [config] = read.kind === 'read' ? read.clusters : []

function order(change: Partial<PodOrder> = {}): PodOrder {
  if (config === undefined) throw new Error('not read')
  return {
    tag: 'berth-abc-7-c0ffee00',
    spec: sampleSpec({ kind: 'container' }),
    accountId: 'acc_1',
    program: programOf(emptyWorkload),
    config,
    namespace: 'berth-acc-1',
    node: 'gpu-1',
    image: 'busybox:1',
    limitsDisk: true,
    ...change,
  }
}

test('a pod has its share, its node and no rights', () => {
  const { name, pod, secrets } = podObjects(order())
  expect(name).toBe('berth-abc-7-c0ffee00')
  expect(pod.spec).toMatchObject({
    restartPolicy: 'Never',
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    hostNetwork: false,
    runtimeClassName: 'nvidia',
    affinity: {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['gpu-1'] }] }],
        },
      },
    },
  })
  const [container] = pod.spec.containers
  const amounts = { cpu: '56', memory: '512000000000', 'ephemeral-storage': '7680000000000', 'nvidia.com/gpu': '2' }
  expect(container).toMatchObject({ resources: { requests: amounts, limits: amounts }, imagePullPolicy: 'Always' })
  expect(container?.securityContext.privileged).toBe(false)
  expect(secrets).toHaveLength(1)
})

test('variables, files and the start script are in the secret only', () => {
  const program = {
    ...programOf(emptyWorkload),
    env: { TOKEN: 'hunter2', NVIDIA_VISIBLE_DEVICES: 'all' },
    files: [{ path: '/etc/app.conf', content: 'password=hunter2', mode: '0600' }],
    onStart: 'echo hunter2',
  }
  const { pod, secrets } = podObjects(order({ program }))
  expect(JSON.stringify(pod)).not.toContain('hunter2')
  const data = secrets[0]?.data ?? {}
  const values = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()])
  expect(Object.fromEntries(values)).toEqual({
    'env.TOKEN': 'hunter2',
    'file.0': 'password=hunter2',
    'on-start': 'echo hunter2',
  })
  const [container] = pod.spec.containers
  expect(container?.env.map(({ name }) => name)).toEqual(['TOKEN', 'BERTH_GPUS'])
  expect(container?.volumeMounts).toMatchObject([
    { mountPath: '/dev/shm' },
    { mountPath: '/etc/app.conf', subPath: 'file.0' },
    { mountPath: '/.berth/on-start' },
  ])
})

test('a command reaches the program as it was ordered', () => {
  const program = { ...programOf(emptyWorkload), command: ['sh', '-c', 'echo $$ $(HOME) $HOME'] }
  const [container] = podObjects(order({ program })).pod.spec.containers
  // Kubernetes turns each $$ into one $.
  expect(container?.command?.map((word) => word.replaceAll('$$', '$'))).toEqual(program.command)
  expect(container?.command?.[2]).toBe('echo $$$$ $$(HOME) $$HOME')
})

test('a registry login is a pull secret', () => {
  const registry = { server: 'registry.example', username: 'me', password: 'hunter2' }
  const { pod, secrets } = podObjects(order({ program: { ...programOf(emptyWorkload), registry } }))
  expect(pod.spec.imagePullSecrets).toEqual([{ name: 'berth-abc-7-c0ffee00-pull' }])
  expect(secrets[1]?.type).toBe('kubernetes.io/dockerconfigjson')
})

test('names are valid in Kubernetes, and those of two accounts or tags never meet', () => {
  const label = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
  const accounts = ['acc_4Yt', 'acc_4yT', 'acc_4yt', 'house', `acc_${'x'.repeat(60)}`]
  const namespaces = accounts.map((account) => namespaceOf('berth', account))
  expect(namespaces.every((name) => label.test(name))).toBe(true)
  expect(new Set(namespaces).size).toBe(accounts.length)
  const tags = ['berth-abc-7-c0ffee00', `berth-${'a'.repeat(80)}-7`, `berth-${'a'.repeat(80)}-8`, 'berth-ABC-7', 'x_y']
  expect(tags.map(podNameOf).every((name) => label.test(name))).toBe(true)
  expect(new Set(tags.map(podNameOf)).size).toBe(tags.length)
  expect(readExternalId('lab/berth-a/pod-1')).toEqual({ cluster: 'lab', namespace: 'berth-a', name: 'pod-1' })
  expect(readExternalId('lab/../pod-1')).toBeUndefined()
})

test('weights are downloaded before the program starts, and the program cannot change them', () => {
  const serving = {
    engineImage: 'reg.example/berth/engine:1',
    serverUrl: 'https://berth.example',
    allowedAddresses: [],
    cache: { gbPerNode: 100, days: 7 },
  }
  const weights = { mountPath: '/models', files: [{ path: 'a.gguf', bytes: 7, sha256: 'f'.repeat(64) }] }
  const program = { ...programOf(emptyWorkload), weights }
  const { config: plain } = order()
  const change = { config: { ...plain, serving }, program, downloadAs: 'Berth-Pod token' }
  const { pod, secrets } = podObjects(order(change))
  const [init] = pod.spec.initContainers ?? []
  const [main] = pod.spec.containers
  expect(init).toMatchObject({ image: serving.engineImage, securityContext: { privileged: false } })
  expect(init?.resources).not.toHaveProperty(['limits', 'nvidia.com/gpu'])
  expect(init?.volumeMounts).toContainEqual({ name: 'weights', mountPath: '/models' })
  expect(main?.volumeMounts).toContainEqual({ name: 'weights', mountPath: '/models', readOnly: true })
  // The token is in the secret, of which the program mounts nothing.
  expect(main?.volumeMounts.map(({ name }) => name)).not.toContain('weights-order')
  expect(JSON.stringify(pod)).not.toContain('Berth-Pod')
  const read = Buffer.from(secrets[0]?.data['weights'] ?? '', 'base64').toString()
  expect(podWeights.parse(JSON.parse(read))).toMatchObject({ workloadId: order().tag, allowPrivate: false })
  expect(() => podObjects(order({ program }))).toThrow('cannot download')
  const shared = podObjects(order({ ...change, weightsClaim: 'weights-1' })).pod.spec
  expect(shared.volumes).toContainEqual({ name: 'weights', persistentVolumeClaim: { claimName: 'weights-1' } })
  expect(shared.securityContext).toMatchObject({ fsGroup: expect.any(Number) })
  expect(shared.initContainers?.[0]).toMatchObject({ securityContext: { runAsUser: 0, privileged: false } })
  const mount = { name: 'weights', mountPath: '/models', readOnly: true, subPath: SHARED_FOLDER }
  expect(shared.containers[0]?.volumeMounts).toContainEqual(mount)
  const strict = podObjects(
    order({ ...change, weightsClaim: 'weights-1', config: { ...change.config, podSecurity: 'restricted' } }),
  ).pod.spec
  expect(strict.initContainers?.[0]?.securityContext).not.toHaveProperty('runAsUser')
})

test('weights that do not fit on the disk are refused with the arithmetic', () => {
  const weights = { mountPath: '/models', files: [{ path: 'a', bytes: 95e9, sha256: 'f'.repeat(64) }] }
  const program = { ...programOf(emptyWorkload), weights }
  expect(whyNoDiskFor(program, 100)).toMatch(/95\.0 GB.*100 GB/)
  expect(whyNoDiskFor(program, 110)).toBeUndefined()
})
