/** Converts the state of a VirtualMachine and its instance to the states of the driver port. */
import { earlier, type Instant } from '../../base/instant.ts'
import type { RentalOutcome } from '../../contract/rental-outcome.ts'
import type { DriverMachine } from '../driver.ts'
import { ORDER_ANNOTATION } from './names.ts'
import type { VirtualMachineInstanceObject, VirtualMachineObject } from './objects.ts'
import { providerDataOf, readNote } from './order-note.ts'
import { sentence, type NodeReach } from './pod-state.ts'

type MachineState = Omit<DriverMachine, 'externalId' | 'tag'>

/** The states that KubeVirt prints for failures. All others count as starting. */
const failures: Readonly<Record<string, RentalOutcome>> = {
  ErrImagePull: 'bad_base_image',
  ImagePullBackOff: 'bad_base_image',
  ErrorUnschedulable: 'no_capacity',
  ErrorPvcNotFound: 'volume_unavailable',
  DataVolumeError: 'volume_unavailable',
  CrashLoopBackOff: 'crashed',
}

/** `instance`: undefined while the machine does not run. */
export function showVirtualMachine(
  machine: VirtualMachineObject,
  instance: VirtualMachineInstanceObject | undefined,
  ids: { readonly externalId: string; readonly tag: string },
  facts: { readonly reach: NodeReach; readonly now: Instant; readonly relayHost: string },
): DriverMachine {
  return { ...ids, ...stateOf(machine, instance, ids.externalId, facts) }
}

function stateOf(
  { metadata, status }: VirtualMachineObject,
  instance: VirtualMachineInstanceObject | undefined,
  externalId: string,
  { reach, now, relayHost }: { reach: NodeReach; now: Instant; relayHost: string },
): MachineState {
  if (metadata.deletionTimestamp !== undefined) return { state: 'stopping' }
  const printed = status?.printableStatus ?? ''
  const failure = failures[printed]
  const message = status?.conditions?.find((one) => one.status === 'False' && one.message !== undefined)?.message
  if (failure !== undefined) return { state: 'failed', failure, message: sentence(message ?? printed) }
  const phase = instance?.status?.phase
  if (phase === 'Failed') return { state: 'failed', failure: 'crashed', message: 'The virtual machine has crashed.' }
  if (phase === 'Succeeded') {
    return { state: 'failed', failure: 'powered_off', message: 'The virtual machine has powered off.' }
  }
  if (instance?.status?.nodeName !== undefined && !reach.isReady) {
    return {
      state: 'unreachable',
      message: `Node ${instance.status.nodeName} does not report.`,
      ...(reach.seenAt === undefined ? {} : { seenAt: earlier(reach.seenAt, now) }),
    }
  }
  if (phase !== 'Running') return { state: 'starting', ...(message === undefined ? {} : { message: message }) }
  const note = readNote(metadata.annotations?.[ORDER_ANNOTATION])
  const address = { publicIp: relayHost, privateIp: instance?.status?.interfaces?.[0]?.ipAddress ?? '' }
  return {
    state: 'running',
    ...(instance?.metadata.uid === undefined ? {} : { incarnation: instance.metadata.uid }),
    ...(note === undefined ? {} : { data: providerDataOf(externalId, note, address) }),
  }
}
