/** The commands of `berth agent` share this: the folder, the membership, and errors the owner can fix. */
import { amdNotes } from '../../agent/amd-smi.ts'
import { AgentError } from '../../agent/agent-error.ts'
import { openAgentFolder, type AgentFolder } from '../../agent/folder.ts'
import { listGpus, type GpuListing } from '../../agent/gpu-listing.ts'
import { resetGpu } from '../../agent/gpu-reset.ts'
import { realGpus, simulatedGpus, type GpuSource } from '../../agent/gpu-source.ts'
import { forgetMembership, readMembership, type AgentTerms, type Membership } from '../../agent/identity.ts'
import { forgetDesiredState } from '../../agent/desired-state.ts'
import { listPassthroughGpus } from '../../agent/passthrough-gpu.ts'
import { defaultFolder, type FolderOptions } from './agent-option.ts'
import { sentence } from '../kit/failure.ts'
import { CliError, exitCodes } from '../kit/shell.ts'

export function folderOf(options: FolderOptions): AgentFolder {
  return openAgentFolder(options.dir ?? defaultFolder())
}

export function gpusOf(
  terms: AgentTerms,
  options: { readonly nvidiaSmi?: string | undefined },
  folder?: AgentFolder,
): GpuSource {
  if (terms.simulated !== null) return simulatedGpus(terms.simulated, folder)
  const program = options.nvidiaSmi ?? 'nvidia-smi'
  const folderOption = folder === undefined ? {} : { folder }
  if (terms.offering === 'virtual-machine')
    return realGpus({ list: async () => listPassthroughGpus(), ...folderOption })
  // The GPUs do not change while the machine runs.
  const amd = amdNotes()
  const list = async (signal?: AbortSignal): Promise<GpuListing> => {
    const listing = await listGpus(program, signal)
    return { ...listing, notes: [...(listing.notes ?? []), ...(await amd)] }
  }
  return realGpus({ list, reset: (uuid, signal) => resetGpu(uuid, { program, list }, signal), ...folderOption })
}

export function joinedOf(folder: AgentFolder): Membership {
  const membership = readMembership(folder)
  if (membership !== undefined) return membership
  throw new CliError(exitCodes.failed, `The agent in ${folder.dir} has not joined a server.`, [
    'To join one: berth agent join --server URL --token TOKEN',
    'To use another folder, add --dir.',
  ])
}

export function forget(folder: AgentFolder): void {
  forgetMembership(folder)
  forgetDesiredState(folder)
}

/** Leaves out the private key and the terms. */
export function shownMembership({ hostId, server, installation }: Membership) {
  return { hostId, server, installation }
}

/** Errors that the owner can fix are shown as a sentence. */
export async function withAgentErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof AgentError) throw new CliError(exitCodes.failed, sentence(error.message), error.next)
    throw error
  }
}
