/** Joining: the machine shows a one-time word and its public key, and is known by that key from then on. */
import { z } from 'zod'
import { hostName, type HostOffer } from '../contract/agent.ts'
import { apiErrorOf } from '../client/error.ts'
import { garbled, openTransport, parseAnswer } from '../client/transport.ts'

const JOIN_PATH = '/v2/agent/join'
const joined = z.object({ hostId: hostName, installation: z.string().min(1) })

export interface JoinRequest {
  readonly token: string
  readonly publicKey: string
  readonly name?: string
  readonly offer: HostOffer
}

/** Throws a `ClientError` (client/error.ts). */
export async function joinServer(server: string, body: JoinRequest): Promise<z.output<typeof joined>> {
  const transport = openTransport({ url: server })
  const request = {
    method: 'POST',
    path: JOIN_PATH,
    headers: { Accept: 'application/json', 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  }
  return transport.within({}, async (signal) => {
    const { response, text } = await transport.send(request, signal)
    if (!response.ok) throw apiErrorOf(response.status, response.headers, text)
    const answer = joined.safeParse(parseAnswer(transport.url, text))
    if (!answer.success) throw garbled(transport.url, answer.error)
    return answer.data
  })
}
