/**
 * Lets a pod prove that it may download its weights: with a token that only this installation can make, and that is
 * worth nothing once the rental has ended.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { App } from '../../app/app.ts'
import { POD_SCHEME } from '../../contract/pod-weights.ts'
import type { WeightsFile } from '../../contract/weights.ts'
import { idOfTag, isLiving, tagOf } from '../../domain/rental.ts'
import { findRental } from '../../store/rental/rental.ts'

const PURPOSE = 'weights of pods'

/** Returns the value of the `Authorization` header. */
export function podAuthorization({ vault }: Pick<App, 'vault'>, tag: string): string {
  return `${POD_SCHEME} ${tokenOf(vault.derive(PURPOSE), tag)}`
}

export function isPod(authorization: string | undefined): authorization is string {
  return authorization?.startsWith(`${POD_SCHEME} `) === true
}

/** undefined: the token does not belong to the pod, its rental has ended, or its weights have no such file. */
export async function findPodFile(
  app: Pick<App, 'vault' | 'database' | 'installationId'>,
  authorization: string,
  { tag, sha256 }: { readonly tag: string; readonly sha256: string },
): Promise<WeightsFile | undefined> {
  const token = Buffer.from(authorization.slice(POD_SCHEME.length + 1))
  const isGood = app.vault.deriveAll(PURPOSE).some((key) => {
    const expected = Buffer.from(tokenOf(key, tag))
    return expected.length === token.length && timingSafeEqual(expected, token)
  })
  const id = isGood ? idOfTag(app.installationId, 'rental', tag) : undefined
  const rental = id === undefined ? undefined : await findRental(app.database.db, id)
  if (rental === undefined || tagOf(app.installationId, 'rental', rental) !== tag) return undefined
  if (!isLiving(rental.status)) return undefined
  return rental.spec.workload?.weights?.files.find((file) => file.sha256 === sha256)
}

function tokenOf(key: Buffer, tag: string): string {
  return createHmac('sha256', key).update(tag).digest('base64url')
}
