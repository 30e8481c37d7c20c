/** Converts the state of a pod to the states of the driver port. */
import { earlier, parseInstant, type Instant } from '../../base/instant.ts'
import type { RentalOutcome } from '../../contract/rental-outcome.ts'
import { isExitCode } from '../../domain/workload.ts'
import type { DriverMachine } from '../driver.ts'
import { CONTAINER, ORDER_ANNOTATION, WEIGHTS_CONTAINER } from './names.ts'
import type { PodObject } from './objects.ts'
import { providerDataOf, readNote } from './order-note.ts'

/** A pod fails only after this time, since kubelets retry and a registry that is down may come back. */
const PULL_PATIENCE_MS = 10 * 60_000
const MAX_MESSAGE_CHARS = 500
const MAX_DOWNLOADS = 3
const DOWNLOAD_ENDED = 'The download of the weights has ended without a reason.'

export interface NodeReach {
  /** Tells whether the kubelet of the node reports. */
  readonly isReady: boolean
  /** The time of the last report of a node that is not ready. undefined: unknown. */
  readonly seenAt?: Instant | undefined
}

type PodState = Omit<DriverMachine, 'externalId' | 'tag'>

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
): DriverMachine {
  return { ...ids, ...stateOf(pod, ids.externalId, facts) }
}

function stateOf(pod: PodObject, externalId: string, { reach, now, relayHost, progress }: PodFacts): PodState {
  const { status, spec, metadata } = pod
  if (metadata.deletionTimestamp !== undefined) return { state: 'stopping' }
  const phase = status?.phase
  if (phase === 'Failed' || phase === 'Succeeded') return endOf(pod)
  // The phase stays Running when the kubelet is dead, so the state of the node decides.
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
    return exitState(last, restarts)
  }
  const waiting = container?.state?.waiting
  if (waiting?.reason !== undefined) return waitingState(waiting.reason, waiting.message, ageOf(pod, now))
  const unscheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (unscheduled?.status === 'False') return startingState(unscheduled.message)
  return { state: 'starting' }
}

/** The state of a pod that ended by itself or was ended by its node. */
function endOf({ status }: PodObject): PodState {
  const container = status?.containerStatuses?.find(({ name }) => name === CONTAINER)
  const exit = container?.state?.terminated ?? container?.lastState?.terminated
  const { reason, message } = status ?? {}
  const download = status?.initContainerStatuses?.find(({ name }) => name === WEIGHTS_CONTAINER)
  const failedDownload = download?.state?.terminated ?? download?.lastState?.terminated
  if (reason === 'Evicted')
    return failedState('engine_failure', `The node has evicted it: ${message ?? 'no reason given'}`)
  if (isRejection(reason)) return failedState('no_capacity', `The node has rejected it: ${message ?? reason ?? ''}`)
  if (failedDownload !== undefined && failedDownload.exitCode !== 0) {
    return failedState('weights_unavailable', failedDownload.message ?? DOWNLOAD_ENDED)
  }
  if (exit !== undefined) return exitState(exit, container?.restartCount ?? 0)
  return failedState('engine_failure', message ?? reason ?? 'The pod has failed.')
}

type ContainerStatus = NonNullable<NonNullable<PodObject['status']>['initContainerStatuses']>[number]

/** The download exits with 1 only if another attempt would not help. Any other end, such as a kill, is tried again. */
function downloadState(download: ContainerStatus, progress: string | undefined, ageMs: number): PodState {
  const last = download.state?.terminated ?? download.lastState?.terminated
  if (last !== undefined && last.exitCode !== 0 && (last.exitCode === 1 || download.restartCount >= MAX_DOWNLOADS)) {
    return failedState('weights_unavailable', last.message ?? DOWNLOAD_ENDED)
  }
  const waiting = download.state?.waiting
  if (waiting?.reason !== undefined) return waitingState(waiting.reason, waiting.message, ageMs)
  return startingState(progress)
}

/** Tells whether the kubelet has refused to admit the pod. Such a refusal is final. */
function isRejection(reason: string | undefined): boolean {
  return (
    reason !== undefined && /^(OutOf.*|UnexpectedAdmissionError|Node(Affinity|Ports)|.*AdmissionError)$/.test(reason)
  )
}

type ContainerExit = NonNullable<
  NonNullable<NonNullable<NonNullable<PodObject['status']>['containerStatuses']>[number]['state']>['terminated']
>

function exitState(exit: ContainerExit, restarts: number): PodState {
  const after = restarts === 0 ? '' : ` after ${restarts} ${restarts === 1 ? 'restart' : 'restarts'}`
  if (exit.reason === 'StartError' || exit.reason === 'ContainerCannotRun') {
    return failedState('boot_failed', `The program could not be started: ${exit.message ?? exit.reason}`)
  }
  const end =
    exit.reason === 'OOMKilled'
      ? failedState('out_of_memory', `The container exceeded its memory limit and was killed${after}.`)
      : failedState('process_exited', `The process exited with code ${exit.exitCode}${after}.`)
  return isExitCode(exit.exitCode) ? { ...end, exitCode: exit.exitCode } : end
}

function waitingState(reason: string, message: string | undefined, ageMs: number): PodState {
  const text = message ?? reason
  switch (reason) {
    case 'InvalidImageName':
      return failedState('image_invalid', text)
    case 'ErrImageNeverPull':
      return failedState('image_unavailable', text)
    case 'ErrImagePull':
    case 'ImagePullBackOff': {
      const fault = pullFault(text)
      if (fault !== undefined) return failedState(fault, text)
      return ageMs > PULL_PATIENCE_MS
        ? failedState('registry_unreachable', text)
        : startingState(`waiting to pull the image: ${text}`)
    }
    case 'CreateContainerConfigError':
      return /run as root/i.test(text) ? failedState('image_refused', text) : startingState(message)
    case 'CreateContainerError':
    case 'RunContainerError':
      return /no command specified/i.test(text)
        ? failedState('image_without_command', text)
        : failedState('boot_failed', text)
    default:
      return startingState(message)
  }
}

/** Returns why the image cannot be pulled. undefined: another attempt may help. */
function pullFault(text: string): RentalOutcome | undefined {
  if (/unauthorized|denied|forbidden|authentication required|no basic auth/i.test(text)) return 'registry_refused'
  if (/not found|NotFound|manifest unknown|does not exist/i.test(text) && !/no such host/i.test(text)) {
    return 'image_not_found'
  }
  return undefined
}

function failedState(failure: RentalOutcome, message: string): PodState {
  return { state: 'failed', failure, message: sentence(message) }
}

function startingState(message: string | undefined): PodState {
  return {
    state: 'starting',
    ...(message === undefined || message === '' ? {} : { message: message.slice(0, MAX_MESSAGE_CHARS) }),
  }
}

/** Starts the text with a capital letter and ends it with a period, like all messages of drivers. */
export function sentence(text: string): string {
  const short = text.trim().slice(0, MAX_MESSAGE_CHARS)
  const complete = /[.!?]$/.test(short) ? short : `${short}.`
  return complete.charAt(0).toUpperCase() + complete.slice(1)
}

function ageOf({ metadata }: PodObject, now: Instant): number {
  const createdAt = metadata.creationTimestamp === undefined ? undefined : parseInstant(metadata.creationTimestamp)
  return createdAt === undefined ? 0 : now - createdAt
}
