/** What the commands of `berth agent` share: which folder, what was joined, and failures that the owner can change. */
import { AgentError } from '../agent/agent-error.ts'
import { openAgentFolder, type AgentFolder } from '../agent/folder.ts'
import { realGpus, simulatedGpus, type GpuSource } from '../agent/gpu-source.ts'
import { forgetMembership, readMembership, type AgentTerms, type Membership } from '../agent/identity.ts'
import { forgetDesiredState } from '../agent/desired-state.ts'
import { defaultFolder, type FolderOptions } from './agent-option.ts'
import { CliError, exitCodes } from './shell.ts'

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
  return realGpus(folder === undefined ? { program } : { program, folder })
}

export function joinedOf(folder: AgentFolder): Membership {
  const membership = readMembership(folder)
  if (membership !== undefined) return membership
  throw new CliError(exitCodes.failed, `The agent in ${folder.dir} has not joined a server.`, [
    'Join one with: berth agent join --server URL --token TOKEN',
    'Another folder is named with --dir.',
  ])
}

export function forget(folder: AgentFolder): void {
  forgetMembership(folder)
  forgetDesiredState(folder)
}

/** The folder holds the private key, and the terms say nothing new. */
export function shownMembership({ hostId, server, installation }: Membership) {
  return { hostId, server, installation }
}

/** What the owner can change is told, not thrown. */
export async function telling<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof AgentError) throw new CliError(exitCodes.failed, sentence(error.message), error.next)
    throw error
  }
}

export function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}
