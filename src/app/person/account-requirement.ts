/** The requirements of an account for the sessions of its members. Keys pass: they act for the account without a person at them. */
import { fail, type Failure } from '../../contract/result.ts'
import type { ConsoleSession } from '../../store/account/console-session.ts'

export interface AccountRequirement {
  readonly accountId: string
  readonly requiresFactor: boolean
  /** The provider at which members must have signed in. null: any way. */
  readonly ssoProviderId: string | null
  readonly ssoProviderName?: string | null
}

export function refuseWeakSession(
  { accountId, requiresFactor, ssoProviderId, ssoProviderName }: AccountRequirement,
  { personId, providerId, factorAt, confinedTo }: ConsoleSession,
): Failure | undefined {
  // Somebody signed in with a key.
  if (personId === null) return undefined
  if (confinedTo !== null && confinedTo !== accountId) return fail('sso_other_account')
  if (ssoProviderId !== null && providerId !== ssoProviderId)
    return fail('sso_required', { provider: ssoProviderName ?? ssoProviderId })
  return requiresFactor && factorAt === null ? fail('factor_required') : undefined
}
