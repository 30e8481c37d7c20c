/** Invitations to become a member of the account (v2), and those of the operator to open an account. */
import { z } from 'zod'
import { roles } from './account.ts'
import { endpoint } from './endpoint.ts'
import { message, textIdParams, timestamp } from './shared.ts'

const role = z.enum(roles)

const invitationRecord = z
  .object({
    id: z.string(),
    email: z.string(),
    role,
    sender: z.string().describe('The address of the person who sent it'),
    createdAt: timestamp,
    expiresAt: timestamp,
  })
  .meta({ id: 'Invitation' })

const invitationList = z.object({ invitations: z.array(invitationRecord).describe('Open invitations') })
const address = z.email().max(255).meta({ title: 'Email address' })

const members = { family: 'v2', tag: 'Account', access: ['keys'] } as const
const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const
const RESEND = 'Sending it again ends the link of the one before. It can be accepted for seven days.'

export const invitationEndpoints = {
  listInvitations: endpoint({
    ...members,
    method: 'GET',
    path: '/v2/invitations',
    summary: 'List open invitations',
    errors: [400, 401, 403, 500],
    response: invitationList,
  }),
  createInvitation: endpoint({
    ...members,
    method: 'POST',
    path: '/v2/invitations',
    summary: 'Invite a person to the account by email (owners only)',
    description: `Only who has proved that the address is theirs can accept it, while you are an owner. ${RESEND}`,
    errors: [400, 401, 403, 500],
    body: z.strictObject({ email: address, role }).meta({ id: 'CreateInvitation' }),
    response: invitationRecord,
    idempotent: true,
  }),
  revokeInvitation: endpoint({
    ...members,
    method: 'DELETE',
    path: '/v2/invitations/{id}',
    summary: 'Revoke an invitation (owners only)',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
  listSignUpInvitations: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/invitations',
    summary: 'List open invitations to open an account',
    errors: [400, 401, 403, 500],
    response: invitationList,
  }),
  createSignUpInvitation: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/invitations',
    summary: 'Invite a person by email to open an account of their own',
    description: RESEND,
    errors: [400, 401, 403, 500],
    body: z.strictObject({ email: address }).meta({ id: 'CreateSignUpInvitation' }),
    response: invitationRecord,
    idempotent: true,
  }),
  revokeSignUpInvitation: endpoint({
    ...operator,
    method: 'DELETE',
    path: '/v2/operator/invitations/{id}',
    summary: 'Revoke an invitation to open an account',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
}
