/** Restores access to an account whose last keys are lost, revoked or expired. For operators. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { operatedAccount } from './operator.ts'
import { reasonText, textIdParams } from './shared.ts'

export const accountRecoveryEndpoints = {
  restoreOwner: endpoint({
    family: 'v2',
    tag: 'Operator',
    access: ['operator'],
    needsRecentSignIn: true,
    method: 'POST',
    path: '/v2/operator/accounts/{id}/restore-owner',
    summary: 'Make a person an account owner and create a key for them',
    description:
      'For an account whose owners have no valid key. Adds the person or raises their role; other members and keys do not change.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        ownerEmail: z.email().max(255),
        ownerName: z.string().trim().min(1).max(limits.nameChars).optional(),
        reason: reasonText,
      })
      .meta({ id: 'RestoreOwner' }),
    response: z.object({
      account: operatedAccount,
      memberId: z.string(),
      key: z.string().describe('`bk_…`, shown once'),
    }),
    idempotent: true,
  }),
}
