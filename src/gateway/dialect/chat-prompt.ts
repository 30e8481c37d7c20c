/** Facts about a prompt that a dialect has translated into a chat. */
import { createHash } from 'node:crypto'
import type { JsonObject, MessagesText } from './chat-body.ts'

/** About three bytes of a prompt are a token; estimated high, so that an answer still fits. */
const BYTES_PER_TOKEN = 3
const IMAGE_TOKENS = 1_536

/** For the room that the answer has. The data of an image says nothing of its tokens. */
export function promptTokensOf({ messages, tools }: JsonObject): number {
  let images = 0
  const text = JSON.stringify([messages, tools], (key, value: unknown) => {
    if (key !== 'image_url') return value
    images += 1
    return undefined
  })
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN) + images * IMAGE_TOKENS
}

/** The size of the chat as its own client would have sent it: a request costs the same in every dialect. */
export function chatBytes(chat: JsonObject, messages: MessagesText): number {
  return Buffer.byteLength(JSON.stringify({ ...chat, messages: 0 })) - 1 + messages.bytes.length
}

/** Requests with the same name go to the same engine if possible; the name stays with us. */
export function sessionFrom(name: string): string {
  return createHash('sha256').update(name).digest('base64url')
}
