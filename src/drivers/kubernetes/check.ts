/**
 * Tests what a cluster enforces between tenants. Kubernetes accepts network policies and security labels that nothing
 * enforces, so their presence proves nothing.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import type { ClusterCheck } from '../../contract/cluster.ts'
import { ApiRefused, hasStatus } from './api.ts'
import type { Cluster } from './cluster.ts'
import type { ClusterConfig } from './config.ts'
import { resourceClaimPath } from './devices.ts'
import { CONTAINER, MANAGED_LABEL, MANAGER, podPath } from './names.ts'
import { checkParts } from './check-parts.ts'
import { anyObject, podObject, type PodObject } from './objects.ts'
import { openPort } from './streams.ts'
import { ensureNamespace } from './tenant-namespace.ts'

/** Real accounts cannot have these names, since ids of accounts contain no spaces. */
const ACCOUNTS = ['check one', 'check two'] as const
const PORT = 8_080
const ANSWER = 'open'
/** The exit code of a probe that could not connect. */
const NOT_REACHED = 42
const POLL_MS = 500
/** Long enough to pull the image. */
const POD_MS = 90_000
const NEW_NAMESPACE_MS = 10_000

export async function checkCluster(
  cluster: Cluster,
  image: string | undefined,
  signal: AbortSignal,
): Promise<ClusterCheck[]> {
  const { api, config } = cluster
  const [first, second] = await Promise.all(ACCOUNTS.map((account) => ensureNamespace(api, config, account, signal)))
  if (first === undefined || second === undefined) throw new Error('There is no namespace to try in.')
  const probeImage = image ?? config.images.default
  return [
    await checkPodSecurity(cluster, first, signal),
    await checkQuota(cluster, first, signal),
    probeImage === undefined
      ? notTried('network_policy', 'Name an image with sh and nc to try it.')
      : await checkNetwork(cluster, first, second, probeImage, signal),
    await checkSecrets(cluster, first, signal),
    ...(await checkParts(cluster, signal)),
  ]
}

/** The cluster must refuse a container with all rights on its node. */
async function checkPodSecurity(cluster: Cluster, namespace: string, signal: AbortSignal): Promise<ClusterCheck> {
  const check = 'pod_security'
  const pod = probePod(cluster, 'probe', 'probe', { securityContext: { privileged: true } })
  const refusal = await tryPod(cluster, namespace, pod, signal)
  if (refusal === undefined) return notEnforced(check, 'A privileged pod was admitted.')
  if (/PodSecurity|privileged/i.test(refusal.message)) return enforced(check, 'A privileged pod was refused.')
  return notTried(check, refusal.message)
}

async function checkQuota(cluster: Cluster, namespace: string, signal: AbortSignal): Promise<ClusterCheck> {
  const check = 'quota'
  const { gpuResource, quota, dra } = cluster.config
  const limits = { [gpuResource]: String(quota.gpus + 1) }
  const pod = probePod(cluster, 'probe', 'probe', { resources: { limits, requests: limits } })
  const refusal =
    dra === undefined
      ? await tryPod(cluster, namespace, pod, signal)
      : await tryCreate(
          cluster,
          resourceClaimPath({ namespace, name: '' }).slice(0, -1),
          excessiveClaim(dra, quota.gpus),
          signal,
        )
  if (refusal === undefined) return notEnforced(check, `A pod with ${quota.gpus + 1} GPUs was admitted.`)
  if (/exceeded quota/i.test(refusal.message)) return enforced(check, 'A pod with too many GPUs was refused.')
  return notTried(check, refusal.message)
}

/** Secrets hold the tenants' passwords; Berth only needs to write them. */
async function checkSecrets({ api }: Cluster, namespace: string, signal: AbortSignal): Promise<ClusterCheck> {
  const check = 'secrets'
  try {
    await api.get(`/api/v1/namespaces/${namespace}/secrets`, z.unknown(), { signal })
    return notEnforced(check, 'Berth can read secrets, which it does not need.')
  } catch (error) {
    if (hasStatus(error, 403)) return enforced(check, 'Berth cannot read secrets.')
    throw error
  }
}

/** Lets one pod listen and a pod of another account try to connect. */
async function checkNetwork(
  cluster: Cluster,
  serverNamespace: string,
  clientNamespace: string,
  image: string,
  signal: AbortSignal,
): Promise<ClusterCheck> {
  const check = 'network_policy'
  const { api } = cluster
  const mark = randomBytes(4).toString('hex')
  const listens = `while true; do echo ${ANSWER} | nc -l -p ${PORT}; done`
  const server = { namespace: serverNamespace, name: `check-${mark}-server` }
  const client = { namespace: clientNamespace, name: `check-${mark}-client` }
  try {
    await createProbe(
      cluster,
      server,
      probePod(cluster, server.name, image, { command: ['sh', '-c', listens] }),
      signal,
    )
    const running = await waitForPod(cluster, server, ({ status }) => status?.phase === 'Running', signal)
    if (running?.status?.podIP === undefined)
      return notTried(check, `The probe did not start: ${describeFailure(running)}`)
    // Asks through the API server, which no policy covers. Otherwise a dead probe would look like a closed network.
    if (!(await isListening(cluster, server, signal)))
      return notTried(check, 'The probe does not listen; does its image have nc?')
    // Only this exit code means that nobody answered. A probe that fails in another way has tested nothing.
    const connects = `nc -w 5 ${running.status.podIP} ${PORT} </dev/null | grep -q ${ANSWER} || exit ${NOT_REACHED}`
    await createProbe(
      cluster,
      client,
      probePod(cluster, client.name, image, { command: ['sh', '-c', connects] }),
      signal,
    )
    const isOver = ({ status }: PodObject): boolean => status?.phase === 'Succeeded' || status?.phase === 'Failed'
    return networkResult(await waitForPod(cluster, client, isOver, signal))
  } finally {
    // The clean-up does not use the signal of the call, so that the probes are removed in any case.
    const cleaning = AbortSignal.timeout(POLL_MS * 20)
    for (const probe of [server, client]) await api.delete(podPath(probe), { signal: cleaning })
  }
}

/** Reads the result from the end of the client pod. */
export function networkResult(client: PodObject | undefined): ClusterCheck {
  const check = 'network_policy'
  if (client?.status?.phase === 'Succeeded') {
    return notEnforced(
      check,
      'A pod reached a pod of another account. Install a network plugin that enforces policies.',
    )
  }
  const exitCode = client?.status?.containerStatuses?.[0]?.state?.terminated?.exitCode
  if (client?.status?.phase === 'Failed' && exitCode === NOT_REACHED) {
    return enforced(check, 'A pod could not reach a pod of another account.')
  }
  return notTried(check, `The second probe could not try: ${describeFailure(client)}`)
}

async function isListening(
  cluster: Cluster,
  server: { namespace: string; name: string },
  signal: AbortSignal,
): Promise<boolean> {
  for (let tries = 0; tries < 10; tries += 1) {
    const stream = await openPort(cluster.api, { cluster: cluster.config.name, ...server }, PORT, signal)
    let text = ''
    try {
      for await (const chunk of stream) {
        text += String(chunk)
        if (text.includes(ANSWER)) return true
      }
    } catch {
      // The server does not listen yet.
    }
    await pause(POLL_MS, undefined, { signal })
  }
  return false
}

function probePod(
  { config }: Cluster,
  name: string,
  image: string,
  container: { command?: string[]; securityContext?: object; resources?: object },
) {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels: { [MANAGED_LABEL]: MANAGER } },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 1,
      tolerations: [{ key: config.gpuResource, operator: 'Exists' }],
      securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: CONTAINER,
          image,
          imagePullPolicy: config.images.pullPolicy,
          securityContext: { allowPrivilegeEscalation: false },
          ...container,
        },
      ],
    },
  }
}

function excessiveClaim(dra: NonNullable<ClusterConfig['dra']>, gpus: number) {
  const exactly = { deviceClassName: dra.deviceClass, count: gpus + 1 }
  return {
    apiVersion: 'resource.k8s.io/v1',
    kind: 'ResourceClaim',
    metadata: { name: 'probe' },
    spec: { devices: { requests: [{ name: 'gpus', exactly }] } },
  }
}

function tryPod(
  cluster: Cluster,
  namespace: string,
  pod: object,
  signal: AbortSignal,
): Promise<ApiRefused | undefined> {
  return tryCreate(cluster, `/api/v1/namespaces/${namespace}/pods`, pod, signal)
}

/** Tries a create as a dry run and returns its refusal. undefined: the object would be admitted. */
async function tryCreate(
  { api }: Cluster,
  path: string,
  body: object,
  signal: AbortSignal,
): Promise<ApiRefused | undefined> {
  const until = performance.now() + NEW_NAMESPACE_MS
  for (;;) {
    try {
      await api.create(path, body, anyObject, { signal, query: { dryRun: 'All' } })
      return undefined
    } catch (error) {
      if (!(error instanceof ApiRefused) || ![400, 403, 422].includes(error.status)) throw error
      const isNew = /status unknown for quota|service account/i.test(error.message)
      if (!isNew || performance.now() > until) return error
      await pause(POLL_MS, undefined, { signal })
    }
  }
}

async function createProbe(
  { api }: Cluster,
  { namespace }: { namespace: string },
  pod: object,
  signal: AbortSignal,
): Promise<void> {
  await api.create(`/api/v1/namespaces/${namespace}/pods`, pod, anyObject, { signal })
}

/** Returns the last state of the pod. undefined: it is gone. */
async function waitForPod(
  { api }: Cluster,
  address: { namespace: string; name: string },
  isDone: (pod: PodObject) => boolean,
  signal: AbortSignal,
): Promise<PodObject | undefined> {
  const until = performance.now() + POD_MS
  for (;;) {
    const pod = await api.find(podPath(address), podObject, { signal })
    if (pod === undefined || isDone(pod) || performance.now() > until) return pod
    await pause(POLL_MS, undefined, { signal })
  }
}

function describeFailure(pod: PodObject | undefined): string {
  const [container] = pod?.status?.containerStatuses ?? []
  return (
    container?.state?.waiting?.message ??
    container?.state?.terminated?.reason ??
    pod?.status?.message ??
    pod?.status?.conditions?.[0]?.message ??
    pod?.status?.phase ??
    'it is gone'
  )
}

function enforced(check: ClusterCheck['check'], detail: string): ClusterCheck {
  return { check, result: 'enforced', detail }
}
function notEnforced(check: ClusterCheck['check'], detail: string): ClusterCheck {
  return { check, result: 'not_enforced', detail }
}
function notTried(check: ClusterCheck['check'], detail: string): ClusterCheck {
  return { check, result: 'not_tried', detail }
}
