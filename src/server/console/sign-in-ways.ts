/** The ways to sign in that the sign-in page offers. */
import { MINUTE_MS, type Instant } from '../../base/instant.ts'
import type { App } from '../../app/app.ts'
import type { SignInWays } from '../../contract/session-body.ts'
import { listPublicProviders, type IdentityProvider } from '../../store/account/identity-provider.ts'

/** A provider that failed this recently is shown as down. */
const DOWN_MS = 5 * MINUTE_MS

export async function signInWays({ people, mailer, database, clock }: App): Promise<SignInWays> {
  if (people === undefined) return { people: false, code: false, passkey: false, providers: [], signUp: 'closed' }
  const providers = await listPublicProviders(database.db)
  const now = clock.now()
  return {
    people: true,
    code: mailer !== undefined,
    passkey: true,
    providers: providers.map((one) => ({ id: one.id, name: one.name, kind: one.kind, isDown: isDown(one, now) })),
    signUp: people.signUp,
  }
}

export function isDown({ failed_at: failedAt }: Pick<IdentityProvider, 'failed_at'>, now: Instant): boolean {
  return failedAt !== null && now - failedAt < DOWN_MS
}
