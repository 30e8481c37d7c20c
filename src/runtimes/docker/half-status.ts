/** Statuses of workloads whose container or files are not as they should be. */
import { NeverStarts, type WorkloadStatus } from '../runtime.ts'
import { lost } from './container-end.ts'
import { TAG_LABEL } from './container-order.ts'
import type { WorkloadFiles } from './workload-file.ts'

/** The files of one container may be damaged; the others must still be listed. */
export async function orFailed<T>(
  id: string,
  labels: Readonly<Record<string, string>>,
  look: Promise<T>,
): Promise<T | WorkloadStatus> {
  try {
    return await look
  } catch (error) {
    if (!(error instanceof NeverStarts)) throw error
    const { reason, message } = error
    return { id, tag: labels[TAG_LABEL] ?? '', state: 'failed', failure: reason, message, disks: [] }
  }
}

/** The status of a network without a container: not created yet, or removed by someone else. */
export async function halfStatus(files: WorkloadFiles, id: string, tag: string): Promise<WorkloadStatus> {
  const file = await files.read(id)
  // The workload is on its way to other GPUs.
  if (file?.disk?.isMoving === true) return { id, tag, state: 'ended', disks: [] }
  return file?.made === true
    ? { id, tag, state: 'failed', ...lost, disks: [] }
    : { id, tag, state: 'starting', disks: [] }
}
