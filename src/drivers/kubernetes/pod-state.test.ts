import { expect, test } from 'vitest'
import { instantOf } from '../../base/instant.ts'
import { providerData } from '../../contract/provider-data.ts'
import { rentalOutcomes } from '../../contract/rental-outcome.ts'
import { sampleSpec } from '../conformance-bench.ts'
import { CONTAINER, ORDER_ANNOTATION, WEIGHTS_CONTAINER } from './names.ts'
import { podObject, type PodObject } from './objects.ts'
import { noteOf } from './order-note.ts'
import { showPod, type NodeReach } from './pod-state.ts'

const CREATED = '2026-11-16T12:00:00Z'
const now = instantOf(Date.parse('2026-11-16T12:01:00Z'))
const ready: NodeReach = { isReady: true }

function pod(status: object, more: { metadata?: object; spec?: object } = {}): PodObject {
  const annotations = { [ORDER_ANNOTATION]: JSON.stringify(noteOf(sampleSpec({ ports: [9_000] }))) }
  return podObject.parse({
    metadata: { name: 'p', namespace: 'n', creationTimestamp: CREATED, annotations, ...more.metadata },
    spec: { nodeName: 'gpu-1', restartPolicy: 'Never', containers: [{ name: CONTAINER }], ...more.spec },
    status,
  })
}
const container = (state: object, more: object = {}) => [{ name: CONTAINER, containerID: 'c://1', state, ...more }]
const show = (given: PodObject, reach: NodeReach = ready, at = now) => {
  const {
    externalId: _,
    tag: __,
    ...rest
  } = showPod(given, { externalId: 'lab/n/p', tag: 't' }, { reach, now: at, relayHost: 'relay.example' })
  return rest
}
const running = { phase: 'Running', podIP: '10.1.2.3', containerStatuses: container({ running: {} }) }

test('a running pod has an address, and another run has another name', () => {
  const machine = show(pod(running))
  expect(machine).toMatchObject({ state: 'running', incarnation: 'c://1' })
  expect(providerData.parse(machine.data)).toMatchObject({
    providerId: 'kubernetes',
    nodeNetworking: [{ publicIp: 'relay.example', privateIp: '10.1.2.3' }],
  })
})

test('the pod of a lost node is unreachable since the last report of the node, never later than now', () => {
  const seenAt = instantOf(now - 50_000)
  expect(show(pod(running), { isReady: false, seenAt })).toMatchObject({ state: 'unreachable', seenAt })
  const fast = instantOf(now + 50_000)
  expect(show(pod(running), { isReady: false, seenAt: fast })).toMatchObject({ state: 'unreachable', seenAt: now })
  expect(show(pod({ phase: 'Failed' }), { isReady: false })).toMatchObject({ state: 'failed' })
})

test('a pod that is being removed is stopping, whatever else it is', () => {
  const metadata = { deletionTimestamp: '2026-11-16T12:00:30Z' }
  expect(show(pod(running, { metadata }), { isReady: false })).toEqual({ state: 'stopping' })
})

const ended = (terminated: object) => ({ phase: 'Failed', containerStatuses: container({ terminated }) })
const waiting = (reason: string, message = 'said') => ({
  phase: 'Pending',
  containerStatuses: container({ waiting: { reason, message } }),
})
test.each([
  ['process_exited', ended({ exitCode: 3, reason: 'Error' })],
  ['process_exited', { phase: 'Succeeded', containerStatuses: container({ terminated: { exitCode: 0 } }) }],
  ['out_of_memory', ended({ exitCode: 137, reason: 'OOMKilled' })],
  ['boot_failed', ended({ exitCode: 128, reason: 'StartError', message: 'no such file' })],
  ['engine_failure', { phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource' }],
  ['no_capacity', { phase: 'Failed', reason: 'UnexpectedAdmissionError', message: 'Allocate failed' }],
  ['no_capacity', { phase: 'Failed', reason: 'OutOfnvidia.com/gpu' }],
  ['engine_failure', { phase: 'Failed', reason: 'Shutdown' }],
  ['image_invalid', waiting('InvalidImageName')],
  ['image_not_found', waiting('ErrImagePull', 'failed to resolve reference "x": x: not found')],
  ['registry_refused', waiting('ImagePullBackOff', 'pull access denied, repository does not exist')],
  ['boot_failed', waiting('CreateContainerError', 'failed to create')],
  ['image_without_command', waiting('CreateContainerError', 'no command specified')],
])('%s', (failure, status) => {
  const machine = show(pod(status))
  expect(machine).toMatchObject({ state: 'failed', failure, message: expect.stringMatching(/^[A-Z].*\.$/s) })
  expect(rentalOutcomes).toHaveProperty(failure)
})

test('an image registry that is away has ten minutes to come back', () => {
  const away = pod(waiting('ImagePullBackOff', 'dial tcp: lookup registry.example: no such host'))
  expect(show(away)).toMatchObject({ state: 'starting', message: expect.stringContaining('no such host') })
  const later = instantOf(now + 15 * 60_000)
  expect(show(away, ready, later)).toMatchObject({ state: 'failed', failure: 'registry_unreachable' })
})

test('a program that is started again fails for good after its last retry', () => {
  const crashed = (restartCount: number) =>
    pod(
      {
        phase: 'Running',
        containerStatuses: container(
          { waiting: { reason: 'CrashLoopBackOff' } },
          { restartCount, lastState: { terminated: { exitCode: 1 } } },
        ),
      },
      {
        spec: { restartPolicy: 'OnFailure' },
        metadata: {
          annotations: { [ORDER_ANNOTATION]: JSON.stringify({ ...noteOf(sampleSpec()), maxRetries: 2 }) },
        },
      },
    )
  expect(show(crashed(1))).toMatchObject({ state: 'starting' })
  expect(show(crashed(2))).toMatchObject({ state: 'failed', failure: 'process_exited' })
})

test('a pod that waits for room is starting, and says why', () => {
  const conditions = [{ type: 'PodScheduled', status: 'False', message: '0/1 nodes are available' }]
  expect(show(pod({ phase: 'Pending', conditions }, { spec: { nodeName: undefined } }))).toEqual({
    state: 'starting',
    message: '0/1 nodes are available',
  })
})

test('a pod that downloads weights starts with its progress, and fails with the reason of the download', () => {
  const download = (state: object, more: object = {}) => ({
    phase: 'Pending',
    initContainerStatuses: [{ name: WEIGHTS_CONTAINER, state, ...more }],
    containerStatuses: container({ waiting: { reason: 'PodInitializing' } }),
  })
  const facts = { reach: ready, now, relayHost: 'relay.example', progress: 'downloading the weights, 3 of 7 MB' }
  const machine = showPod(pod(download({ running: {} })), { externalId: 'lab/n/p', tag: 't' }, facts)
  expect(machine).toMatchObject({ state: 'starting', message: facts.progress })
  const wrong = { terminated: { exitCode: 1, message: 'the digest is wrong' } }
  const final = { state: 'failed', failure: 'weights_unavailable', message: 'The digest is wrong.' }
  expect(show(pod(download({ waiting: { reason: 'CrashLoopBackOff' } }, { lastState: wrong })))).toMatchObject(final)
  expect(show(pod({ ...download(wrong), phase: 'Failed' }))).toMatchObject(final)
  const killed = { waiting: { reason: 'CrashLoopBackOff' } }
  const lastState = { terminated: { exitCode: 137 } }
  expect(show(pod(download(killed, { lastState, restartCount: 1 })))).toMatchObject({ state: 'starting' })
  expect(show(pod(download(killed, { lastState, restartCount: 3 })))).toMatchObject({ failure: 'weights_unavailable' })
  expect(show(pod(download({ terminated: { exitCode: 0 } })))).toEqual({ state: 'starting' })
})
