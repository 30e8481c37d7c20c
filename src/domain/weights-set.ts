/** The identity of a set of weights: the same files at the same paths, wherever they come from. */
import { sha256 } from '../base/id.ts'
import type { HostWeights } from '../contract/weights.ts'

const ID_CHARS = 32

/** Identifies an account on hosts, which do not learn its id. */
export function weightsOwner(accountId: string): string {
  return sha256(`owner of weights ${accountId}`).toString('hex').slice(0, ID_CHARS)
}

export function weightsSetId({ files }: Pick<HostWeights, 'files'>): string {
  const all = files.map(({ path, sha256: digest }) => `${path} ${digest}`).toSorted()
  return sha256(all.join('\n')).toString('hex').slice(0, ID_CHARS)
}
