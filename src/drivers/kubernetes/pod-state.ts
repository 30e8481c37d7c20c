/** The state of a pod in the words of the driver port. */
import { earlier, parseInstant, type Instant } from '../../base/instant.ts'
import type { RentalOutcome } from '../../contract/rental-outcome.ts'
import type { EngineMachine } from '../driver.ts'
import { CONTAINER, ORDER_ANNOTATION, WEIGHTS_CONTAINER } from './names.ts'
import type { PodObject } from './objects.ts'
import { providerDataOf, readNote } from './order-note.ts'

/** A registry that is down may come back; kubelets try again. */
const PULL_PATIENCE_MS = 10 * 60_000
const MAX_MESSAGE_CHARS = 500
const MAX_DOWNLOADS = 3
const DOWNLOAD_ENDED = 'The download of the weights has ended without a reason.'

export interface NodeReach {
  /** Its kubelet reports. */
  readonly isReady: boolean
  /** Its last report, unless it is ready. undefined: not known. */
  readonly seenAt?: Instant | undefined
}

type Shown = Omit<EngineMachine, 'externalId' | 'tag'>

interface PodFacts {
  readonly reach: NodeReach
  readonly now: Instant
  readonly relayHost: string
  /** The progress of the download of its weights. */
  readonly progress?: string | undefined
}

export function showPod(
  pod: PodObject,
  ids: { readonly externalId: string; readonly tag: string },
  facts: PodFacts,
): EngineMachine {
  return { ...ids, ...stateOf(pod, ids.externalId, facts) }
}

function stateOf(pod: PodObject, externalId: string, { reach, now, relayHost, progress }: PodFacts): Shown {
  const { status, spec, metadata } = pod
  if (metadata.deletionTimestamp !== undefined) return { state: 'stopping' }
  const phase = status?.phase
  if (phase === 'Failed' || phase === 'Succeeded') return endOf(pod)
  // The phase stays Running when the kubelet is dead: only the node tells.
  if (spec?.nodeName !== undefined && !reach.isReady) {
    return {
      state: 'unreachable',
      message: `Node ${spec.nodeName} does not report.`,
      // The clock of a node may be fast.
      ...(reach.seenAt === undefined ? {} : { seenAt: earlier(reach.seenAt, now) }),
    }
  }
  const container = status?.containerStatuses?.find(({ name }) => name === CONTAINER)
  const note = readNote(metadata.annotations?.[ORDER_ANNOTATION])
  if (container?.state?.running !== undefined && phase === 'Running') {
    const incarnation = container.containerID
    return {
      state: 'running',
      ...(incarnation === undefined ? {} : { incarnation }),
      ...(note === undefined
        ? {}
        : { data: providerDataOf(externalId, note, { publicIp: relayHost, privateIp: status?.podIP ?? '' }) }),
    }
  }
  const download = status?.initContainerStatuses?.find(({ name }) => name === WEIGHTS_CONTAINER)
  if (download !== undefined && download.state?.terminated?.exitCode !== 0) {
    return downloadState(download, progress, ageOf(pod, now))
  }
  const restarts = container?.restartCount ?? 0
  const last = container?.state?.terminated ?? container?.lastState?.terminated
  if (last !== undefined && restarts >= (note?.maxRetries ?? 0) && spec?.restartPolicy !== 'Never') {
    return failed(...exitOf(last, restarts))
  }
  const waiting = container?.state?.waiting
  if (waiting?.reason !== undefined) return waitingState(waiting.reason, waiting.message, ageOf(pod, now))
  const unscheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (unscheduled?.status === 'False') return starting(unscheduled.message)
  return { state: 'starting' }
}

/** A pod that has ended, or that its node has ended. */
function endOf({ status }: PodObject): Shown {
  const container = status?.containerStatuses?.find(({ name }) => name === CONTAINER)
  const ended = container?.state?.terminated ?? container?.lastState?.terminated
  const { reason, message } = status ?? {}
  const download = status?.initContainerStatuses?.find(({ name }) => name === WEIGHTS_CONTAINER)
  const failedDownload = download?.state?.terminated ?? download?.lastState?.terminated
  if (reason === 'Evicted') return failed('engine_failure', `The node has evicted it: ${message ?? 'no reason given'}`)
  if (isRejection(reason)) return failed('no_capacity', `The node has rejected it: ${message ?? reason ?? ''}`)
  if (failedDownload !== undefined && failedDownload.exitCode !== 0) {
    return failed('weights_unavailable', failedDownload.message ?? DOWNLOAD_ENDED)
  }
  if (ended !== undefined) return failed(...exitOf(ended, container?.restartCount ?? 0))
  return failed('engine_failure', message ?? reason ?? 'The pod has failed.')
}

type ContainerStatus = NonNullable<NonNullable<PodObject['status']>['initContainerStatuses']>[number]

/** The program ends with 1 only when another try would not help; anything else, such as a kill, may have been an accident. */
function downloadState(download: ContainerStatus, progress: string | undefined, ageMs: number): Shown {
  const last = download.state?.terminated ?? download.lastState?.terminated
  if (last !== undefined && last.exitCode !== 0 && (last.exitCode === 1 || download.restartCount >= MAX_DOWNLOADS)) {
    return failed('weights_unavailable', last.message ?? DOWNLOAD_ENDED)
  }
  const waiting = download.state?.waiting
  if (waiting?.reason !== undefined) return waitingState(waiting.reason, waiting.message, ageMs)
  return starting(progress)
}

/** Reasons of a kubelet that does not admit a pod. They are final. */
function isRejection(reason: string | undefined): boolean {
  return (
    reason !== undefined && /^(OutOf.*|UnexpectedAdmissionError|Node(Affinity|Ports)|.*AdmissionError)$/.test(reason)
  )
}

type Ended = NonNullable<
  NonNullable<NonNullable<NonNullable<PodObject['status']>['containerStatuses']>[number]['state']>['terminated']
>

function exitOf(ended: Ended, restarts: number): [RentalOutcome, string] {
  const after = restarts === 0 ? '' : ` after ${restarts} ${restarts === 1 ? 'restart' : 'restarts'}`
  if (ended.reason === 'OOMKilled') {
    return ['out_of_memory', `The container exceeded its memory limit and was killed${after}.`]
  }
  if (ended.reason === 'StartError' || ended.reason === 'ContainerCannotRun') {
    return ['boot_failed', `The program could not be started: ${ended.message ?? ended.reason}`]
  }
  return ['process_exited', `The process exited with code ${ended.exitCode}${after}.`]
}

function waitingState(reason: string, message: string | undefined, ageMs: number): Shown {
  const text = message ?? reason
  switch (reason) {
    case 'InvalidImageName':
      return failed('image_invalid', text)
    case 'ErrImageNeverPull':
      return failed('image_unavailable', text)
    case 'ErrImagePull':
    case 'ImagePullBackOff': {
      const why = pullFault(text)
      if (why !== undefined) return failed(why, text)
      return ageMs > PULL_PATIENCE_MS
        ? failed('registry_unreachable', text)
        : starting(`waiting to pull the image: ${text}`)
    }
    case 'CreateContainerConfigError':
      return /run as root/i.test(text) ? failed('image_refused', text) : starting(message)
    case 'CreateContainerError':
    case 'RunContainerError':
      return /no command specified/i.test(text) ? failed('image_without_command', text) : failed('boot_failed', text)
    default:
      return starting(message)
  }
}

/** undefined: another try may help. */
function pullFault(text: string): RentalOutcome | undefined {
  if (/unauthorized|denied|forbidden|authentication required|no basic auth/i.test(text)) return 'registry_refused'
  if (/not found|NotFound|manifest unknown|does not exist/i.test(text) && !/no such host/i.test(text)) {
    return 'image_not_found'
  }
  return undefined
}

function failed(failure: RentalOutcome, message: string): Shown {
  return { state: 'failed', failure, message: sentence(message) }
}

function starting(message: string | undefined): Shown {
  return {
    state: 'starting',
    ...(message === undefined || message === '' ? {} : { message: message.slice(0, MAX_MESSAGE_CHARS) }),
  }
}

/** Begins with a capital and ends with a full stop, like all messages of engines. */
export function sentence(text: string): string {
  const short = text.trim().slice(0, MAX_MESSAGE_CHARS)
  const whole = /[.!?]$/.test(short) ? short : `${short}.`
  return whole.charAt(0).toUpperCase() + whole.slice(1)
}

function ageOf({ metadata }: PodObject, now: Instant): number {
  const createdAt = metadata.creationTimestamp === undefined ? undefined : parseInstant(metadata.creationTimestamp)
  return createdAt === undefined ? 0 : now - createdAt
}
