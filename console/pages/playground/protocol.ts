/** A chat as code in each protocol that models answer. All of them reach the same model, at the same price. */
import { curl, lines, python, text, typescript, type Body } from './literal.ts'
import { transcriptionSnippets, type Fields } from './sound-snippet.ts'
import { chatSnippets, imageSnippets, speechSnippets, type Snippets } from './snippet.ts'

/** The request in one protocol. */
export interface ProtocolCode {
  readonly protocol: string
  readonly snippets: Snippets
  /** Parameters that the protocol does not support. */
  readonly missing?: readonly string[]
}

/** Anthropic's protocol requires a limit. */
const USUAL_MAX_TOKENS = 1_024

/** `body` is that of a chat completion. */
export function chatProtocols(url: string, body: Body): ProtocolCode[] {
  return [
    { protocol: 'OpenAI Chat Completions', snippets: chatSnippets(url, body) },
    { protocol: 'OpenAI Responses', ...responses(url, body) },
    { protocol: 'Anthropic Messages', ...messages(url, body) },
  ]
}

/** Images, speech and transcription have one protocol. */
export function imageProtocols(url: string, body: Body): ProtocolCode[] {
  return [{ protocol: 'Images', snippets: imageSnippets(url, body) }]
}

export function speechProtocols(url: string, body: Body): ProtocolCode[] {
  return [{ protocol: 'Speech', snippets: speechSnippets(url, body) }]
}

/** `fields` are the form's fields beside the file. */
export function transcriptionProtocols(url: string, fields: Fields, file: string): ProtocolCode[] {
  return [{ protocol: 'OpenAI Transcription', snippets: transcriptionSnippets(url, fields, file) }]
}

type Code = Omit<ProtocolCode, 'protocol'>

function responses(url: string, body: Body): Code {
  const { system, others } = splitSystem(body)
  const parts: Body = { instructions: system, input: others }
  const { request, missing } = translate(body, parts, {
    max_tokens: 'max_output_tokens',
    temperature: 'temperature',
    top_p: 'top_p',
  })
  return {
    missing,
    snippets: {
      curl: curl(`${url}/v1/responses`, { ...request, stream: true }, ['-N']),
      python: lines(
        '# pip install openai',
        'import os',
        '',
        'from openai import OpenAI',
        '',
        `client = OpenAI(base_url=${text(`${url}/v1`)}, api_key=os.environ["BERTH_KEY"])`,
        'stream = client.responses.create(',
        ...pythonArguments(request),
        '    stream=True,',
        ')',
        'for event in stream:',
        '    if event.type == "response.output_text.delta":',
        '        print(event.delta, end="", flush=True)',
        'print()',
      ),
      typescript: lines(
        '// npm install openai; then: npx tsx chat.mts',
        "import OpenAI from 'openai'",
        '',
        `const client = new OpenAI({ baseURL: ${text(`${url}/v1`)}, apiKey: process.env.BERTH_KEY })`,
        'const stream = await client.responses.create({',
        ...typescriptFields(request),
        '  stream: true,',
        '})',
        'for await (const event of stream) {',
        "  if (event.type === 'response.output_text.delta') process.stdout.write(event.delta)",
        '}',
        "process.stdout.write('\\n')",
      ),
    },
  }
}

function messages(url: string, body: Body): Code {
  const { system, others } = splitSystem(body)
  const parts: Body = { max_tokens: USUAL_MAX_TOKENS, system, messages: others }
  const { request, missing } = translate(body, parts, {
    max_tokens: 'max_tokens',
    temperature: 'temperature',
    top_p: 'top_p',
    top_k: 'top_k',
    stop: 'stop_sequences',
  })
  return {
    missing,
    snippets: {
      curl: curl(`${url}/v1/messages`, { ...request, stream: true }, ['-N']),
      python: lines(
        '# pip install anthropic',
        'import os',
        '',
        'from anthropic import Anthropic',
        '',
        `client = Anthropic(base_url=${text(url)}, api_key=os.environ["BERTH_KEY"])`,
        'stream = client.messages.create(',
        ...pythonArguments(request),
        '    stream=True,',
        ')',
        'for event in stream:',
        '    if event.type == "content_block_delta" and event.delta.type == "text_delta":',
        '        print(event.delta.text, end="", flush=True)',
        'print()',
      ),
      typescript: lines(
        '// npm install @anthropic-ai/sdk; then: npx tsx chat.mts',
        "import Anthropic from '@anthropic-ai/sdk'",
        '',
        `const client = new Anthropic({ baseURL: ${text(url)}, apiKey: process.env.BERTH_KEY })`,
        'const stream = await client.messages.create({',
        ...typescriptFields(request),
        '  stream: true,',
        '})',
        'for await (const event of stream) {',
        "  if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') process.stdout.write(event.delta.text)",
        '}',
        "process.stdout.write('\\n')",
      ),
    },
  }
}

interface SystemAndOthers {
  readonly system: unknown
  readonly others: readonly unknown[]
}

/** Both protocols have a separate field for the system prompt. */
function splitSystem(body: Body): SystemAndOthers {
  const all = body['messages'] as ReadonlyArray<{ readonly role: string; readonly content: unknown }>
  return {
    system: all.find(({ role }) => role === 'system')?.content,
    others: all.filter(({ role }) => role !== 'system'),
  }
}

/** Translates the request: supported parameters get the names of the protocol, the others are returned as missing. */
function translate(
  body: Body,
  parts: Body,
  names: Readonly<Record<string, string>>,
): { request: Body; missing: string[] } {
  const parameters = Object.entries(body).filter(([name]) => name !== 'model' && name !== 'messages')
  const supported = parameters.flatMap(([name, value]) => (names[name] === undefined ? [] : [[names[name], value]]))
  const all = { model: body['model'], ...parts, ...(Object.fromEntries(supported) as Body) }
  return {
    request: Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)),
    missing: parameters.map(([name]) => name).filter((name) => names[name] === undefined),
  }
}

function pythonArguments(request: Body): string[] {
  return Object.entries(request).map(([name, value]) => `    ${name}=${python(value, 1)},`)
}

function typescriptFields(request: Body): string[] {
  return Object.entries(request).map(([name, value]) => `  ${name}: ${typescript(value, 1)},`)
}
