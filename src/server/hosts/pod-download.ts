/**
 * How a pod proves that it may download its weights: with a token that only this installation can make, and that is
 * worth nothing once the rental has ended.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { App } from '../../app/app.ts'
import { POD_SCHEME } from '../../contract/pod-weights.ts'
import type { WeightsFile } from '../../contract/weights.ts'
import { idOfTag, isLiving, tagOf } from '../../domain/rental.ts'
import { findRental } from '../../store/rental/rental.ts'

const PURPOSE = 'weights of pods'

/** For `Authorization`. */
export function podAuthorization({ vault }: Pick<App, 'vault'>, tag: string): string {
  return `${POD_SCHEME} ${tokenOf(vault.derive(PURPOSE), tag)}`
}

export function isPod(authorization: string | undefined): authorization is string {
  return authorization?.startsWith(`${POD_SCHEME} `) === true
}

/** undefined: the token is not that of the pod, its rental has ended, or its weights have no such file. */
export async function findPodFile(
  app: Pick<App, 'vault' | 'database' | 'installationId'>,
  authorization: string,
  { tag, sha256 }: { readonly tag: string; readonly sha256: string },
): Promise<WeightsFile | undefined> {
  const given = Buffer.from(authorization.slice(POD_SCHEME.length + 1))
  const isGood = app.vault.deriveAll(PURPOSE).some((key) => {
    const token = Buffer.from(tokenOf(key, tag))
    return token.length === given.length && timingSafeEqual(token, given)
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
