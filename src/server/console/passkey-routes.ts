/**
 * The ceremonies of passkeys: a path that asks for an answer of an authenticator, and one that takes it. A cookie ties both to
 * one browser. The same paths renew the sign-in of a session (step-up), as codes by email do.
 */
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { Actor } from '../../app/app.ts'
import { redeemRecoveryCode } from '../../app/person/factor.ts'
import { addPasskey, beginPasskey, beginPasskeySignIn, redeemPasskey, type Flow } from '../../app/person/passkey.ts'
import { signInPerson } from '../../app/person/session.ts'
import { sha256 } from '../../base/id.ts'
import { v2Form } from '../../contract/error-form.ts'
import { fail, type Result } from '../../contract/result.ts'
import {
  ADD_PASSKEY_PATH,
  BEGIN_PASSKEY_PATH,
  PASSKEY_PATH,
  RECOVERY_CODE_PATH,
  REDEEM_PASSKEY_PATH,
} from '../../contract/session.ts'
import { newPasskey, passkeyAnswer, redeemCode } from '../../contract/session-body.ts'
import { transact } from '../../store/platform/database.ts'
import { countFailedKey } from '../http/access.ts'
import { send } from '../http/answer.ts'
import { credentialsOf, flowTokenOf, sessionTokenOf } from '../http/credentials.ts'
import { validate } from '../http/validation.ts'
import { writerOf } from '../../contract/wire.ts'
import { passkeyOnWire } from '../handlers/factor.ts'
import { admitAddress, browserOf, isSecure, openSession, refuse, type ConsoleOptions } from './console-request.ts'
import { beginFlow } from './email-code-routes.ts'

export function addPasskeyRoutes(server: FastifyInstance, options: ConsoleOptions): void {
  addSignInRoutes(server, options)
  addOwnRoutes(server, options)
}

/** Anybody may call these. */
function addSignInRoutes(server: FastifyInstance, options: ConsoleOptions): void {
  const { app } = options
  server.post(PASSKEY_PATH, async (request, reply) => {
    const counted = admitAddress(options, request, reply)
    if (counted !== undefined) return refuse(reply, counted)
    const begun = await beginPasskeySignIn(app, { flowHash: sha256(beginFlow(request, reply)) })
    return begun.ok ? reply.send(begun.value) : refuse(reply, begun)
  })

  server.post(REDEEM_PASSKEY_PATH, async (request, reply) => {
    const counted = admitAddress(options, request, reply)
    if (counted !== undefined) return refuse(reply, counted)
    const body = validate(passkeyAnswer, request.body)
    if (!body.ok) return send(reply, v2Form.writeInvalid('body', body.issues))
    const flow = flowOf(request)
    const answer = body.value as z.output<typeof passkeyAnswer> as AuthenticationResponseJSON
    const proof = { method: 'passkey', providerId: null, hasFactor: true } as const
    const token = flow.ok
      ? await redeemPasskey(app, flow.value, answer, (tx, personId) =>
          signInPerson(tx, personId, proof, browserOf(request), sessionTokenOf(request.headers)),
        )
      : flow
    if (!token.ok) return refuse(reply, countFailedKey(options, token, request, reply))
    return openSession(request, reply, token.value).send({})
  })
}

/** Only a person who is signed in may call these. */
function addOwnRoutes(server: FastifyInstance, options: ConsoleOptions): void {
  const { app } = options
  server.post(BEGIN_PASSKEY_PATH, async (request, reply) => {
    const actor = await admitPerson(options, request, reply)
    if (!actor.ok) return refuse(reply, actor)
    const begun = await beginPasskey(app, actor.value, { flowHash: sha256(beginFlow(request, reply)) })
    return begun.ok ? reply.send(begun.value) : refuse(reply, begun)
  })

  server.post(ADD_PASSKEY_PATH, async (request, reply) => {
    const actor = await admitPerson(options, request, reply)
    if (!actor.ok) return refuse(reply, actor)
    const body = validate(newPasskey, request.body)
    if (!body.ok) return send(reply, v2Form.writeInvalid('body', body.issues))
    const { name, response } = body.value as z.output<typeof newPasskey>
    const flow = flowOf(request)
    const added = flow.ok
      ? await addPasskey(app, actor.value, flow.value, { name, response: response as RegistrationResponseJSON })
      : flow
    if (!added.ok) return refuse(reply, added)
    const { passkey, token } = added.value
    return openSession(request, reply, token).send(writerOf('renamePasskey')(passkeyOnWire(passkey)))
  })

  server.post(RECOVERY_CODE_PATH, async (request, reply) => {
    const actor = await admitPerson(options, request, reply)
    if (!actor.ok) return refuse(reply, actor)
    const body = validate(redeemCode, request.body)
    if (!body.ok) return send(reply, v2Form.writeInvalid('body', body.issues))
    const { code } = body.value as z.output<typeof redeemCode>
    const token = await transact(app.database, (tx) => redeemRecoveryCode(tx, actor.value, code))
    if (!token.ok) return refuse(reply, countFailedKey(options, token, request, reply))
    return openSession(request, reply, token.value).send({})
  })
}

async function admitPerson(
  options: ConsoleOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Result<Actor>> {
  const counted = admitAddress(options, request, reply)
  if (counted !== undefined) return counted
  const caller = await options.authenticator.authenticatePerson(credentialsOf(request))
  return caller.ok ? caller : countFailedKey(options, caller, request, reply)
}

function flowOf(request: FastifyRequest): Result<Flow> {
  const flow = flowTokenOf(request.headers, isSecure(request))
  return flow === undefined ? fail('passkey_expired') : { ok: true, value: { flowHash: sha256(flow) } }
}
