/** The Python package `berth-client`, built, installed in an empty environment and used against a server: P35 to P42. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { api } from '../src/contract/api.ts'
import type { Endpoint } from '../src/contract/endpoint.ts'
import { isPublic } from '../scripts/python-operations.ts'
import { placeOf } from '../scripts/python-names.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { removeFolder } from './harness/leftover.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { whyNoPython } from './lab/python-packages.ts'
import { buildPackage, environmentWith, python, pythonTools, talkTo, type PythonTools } from './lab/python-wheel.ts'
import { startServerLab } from './lab/server-lab.ts'
import { needs } from './needs.ts'

needs('python', 'build')

const why = whyNoPython()
/** The first run installs the packages. */
const START_MS = 10 * 60_000
const MODEL = 'tinyllama-1.1b-chat'

describe.skipIf(why !== undefined)(`the Python package${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let folder: string
  let tools: PythonTools
  let wheel: string
  let sdist: string
  /** The Python of an environment that has the wheel, what it depends on, the extra `openai`, and pytest. */
  let program: string
  let server: TestServer
  let model: TestModel

  beforeAll(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-python-package-'))
    tools = await pythonTools()
    ;({ wheel, sdist } = await buildPackage(tools, path.join(folder, 'dist')))
    program = await environmentWith(path.join(folder, 'venv'), `${wheel}[openai]`, ['pytest==9.2.0'])
    server = await testServer()
    model = await serveModel(server, { name: MODEL })
  }, START_MS)
  afterAll(async () => {
    await server.close()
    await model.upstream.close()
    await removeFolder(folder)
  })

  async function customer(usd = '100') {
    const { key, call } = await server.account({ usd })
    return { key, call, env: { BERTH_URL: server.url, BERTH_KEY: key } }
  }

  test.each(['sync', 'async'])(
    'P35: the journey of a customer with the %s client',
    { timeout: START_MS },
    async (kind) => {
      const { env } = await customer()
      const journey = JSON.parse(
        await python(program, [path.resolve('test/clients/python-journey.py'), kind], env, folder),
      )
      expect(journey).toEqual({
        role: 'owner',
        state: 'Running',
        models: [MODEL],
        tokens: 5,
        chunks: expect.any(Number),
        openai: [MODEL],
        end: 'Terminated',
        missing: 404,
      })
      expect(journey.chunks).toBeGreaterThan(4)
    },
  )

  test('P36: every public operation has a method in both clients, and there are no others', async () => {
    const list = `
import importlib, inspect, json, re
from berth_client._generated import operations
def routes(mode):
    module = importlib.import_module(f"berth_client._{mode}.resources")
    names = {name: kind for name, kind in vars(module).items() if name.endswith("Resource") or name == "Resources"}
    def walk(kind, path):
        for name, value in vars(kind).items():
            if inspect.isfunction(value):
                route = re.search(r"\`([A-Z]+ /\\S*)\`$", inspect.getdoc(value) or "")
                if route: yield ".".join([*path, name]), route[1]
            elif hasattr(value, "func"):
                yield from walk(names[value.func.__annotations__["return"]], [*path, name])
    return dict(walk(module.Resources, []))
print(json.dumps([routes("sync"), routes("aio")]))`
    const [sync, aio] = JSON.parse(await python(program, ['-c', list], {}, folder)) as Array<Record<string, string>>
    expect(aio).toEqual(sync)
    const expected = Object.entries<Endpoint>(api).filter(([, one]) => isPublic(one) && one.answers !== 'events')
    const methods = expected.map(([id, one]) => {
      const { group, method } = placeOf(id, one)
      return [[...group, method].join('.'), `${one.method} ${one.path}`] as const
    })
    expect(Object.fromEntries(Object.entries(sync ?? {}).filter(([name]) => !/\.stream(_\w+)?$/.test(name)))).toEqual(
      Object.fromEntries(methods),
    )
    // Streams of events are followed.
    const followed = Object.entries<Endpoint>(api).filter(([, one]) => one.answers === 'events')
    expect(followed.map(([id, one]) => placeOf(id, one))).toEqual([
      { group: ['events'], method: 'follow' },
      { group: ['operator', 'events'], method: 'follow' },
    ])
  })

  test(
    'P36: mypy --strict and pyright accept the package, its tests and the examples',
    { timeout: START_MS },
    async () => {
      const checked = path.join(folder, 'checked')
      await mkdir(checked)
      const examples = await Promise.all(['python/README.md', 'docs/customer/python.md'].map(programOf))
      await Promise.all(examples.map((text, at) => writeFile(path.join(checked, `example_${at}.py`), text)))
      await writeFile(path.join(checked, 'wrong.py'), wrongProgram)
      const options = ['--strict', '--python-executable', program]
      await tools.tool('mypy', [...options, '-p', 'berth_client', '--cache-dir', path.join(folder, 'mypy')], folder)
      const files = ['example_0.py', 'example_1.py']
      const inWheel = ['--cache-dir', path.join(folder, 'mypy')]
      await tools.tool('mypy', [...options, ...inWheel, ...files], checked)
      await tools.tool('pyright', ['--pythonpath', program, ...files], checked)
      // A check that accepts everything would be none.
      for (const tool of [
        ['mypy', ...options, ...inWheel],
        ['pyright', '--pythonpath', program],
      ] as const) {
        const [name, ...args] = tool
        await expect(tools.tool(name, [...args, 'wrong.py'], checked)).rejects.toThrow('wrong.py')
      }
    },
  )

  test.each(['python/README.md', 'docs/customer/python.md'])(
    'P36: the program in %s runs',
    { timeout: START_MS },
    async (page) => {
      const { env } = await customer()
      const file = path.join(folder, 'example.py')
      await writeFile(file, await programOf(page))
      const output = await python(program, [file], env, folder)
      expect(output).toMatch(/^\S+ is Running/m)
      expect(output.trim().split('\n').at(-1)).toMatch(/^\$\d+\.\d{2} left$/)
    },
  )

  test('P37, P39, P40, P41: the tests of the package pass in the environment', { timeout: START_MS }, async () => {
    const output = await python(program, ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', path.resolve('python/tests')])
    expect(output).toMatch(/^\d+ passed in/m)
  })

  test(
    'P38: every event once and in order, over a server that is killed and restarted',
    { timeout: START_MS },
    async () => {
      const lab = await startServerLab({
        BERTH_SECRET_KEY: 'the secret key of the server that is killed',
        BERTH_DRIVERS: 'mock',
      })
      try {
        const { key, call } = await lab.account({ usd: '10' })
        const env = { BERTH_URL: lab.url, BERTH_KEY: key }
        const create = (name: string) => call('POST', '/v2/api-keys', { name, scopes: ['inference'] })
        const talk = talkTo(program, [path.resolve('test/clients/python-events.py'), 'follow', 'last'], env)
        expect(await talk.next()).toEqual({ ready: true })
        const ids: string[] = []
        const readUntil = async (count: number): Promise<void> => {
          while (ids.length < count) ids.push(String((await talk.next()).id))
        }
        for (const round of [1, 2, 3]) {
          for (const one of [1, 2, 3]) expect((await create(`key ${round}-${one}`)).status).toBe(200)
          await readUntil(round * 3)
          await lab.kill()
          await lab.start()
        }
        expect((await create('last')).status).toBe(200)
        const { body } = await call('GET', '/v2/events?limit=1000')
        const all = (body.events as Array<{ id: string }>).map(({ id }) => id).toReversed()
        await readUntil(all.length)
        expect(ids).toEqual(all)
        await talk.close()
      } finally {
        await lab.close()
      }
    },
  )

  test(
    'P38: a wait that fails has the reason of the server; one that is too long, the cost',
    { timeout: START_MS },
    async () => {
      const slow = await testServer({ env: { BERTH_MOCK_BOOT_MS: '3600000' } })
      try {
        const { key, call } = await slow.account({ usd: '1000' })
        const env = { BERTH_URL: slow.url, BERTH_KEY: key }
        const order = {
          kind: 'virtual-machine',
          region: 'mock-region',
          gpuType: 'h100',
          gpuCount: 1,
          networkType: 'ethernet',
        }
        const { body: rental } = await call('POST', '/v2/rentals', order)
        const wait = async (seconds: string) => {
          const talk = talkTo(
            program,
            [path.resolve('test/clients/python-events.py'), 'wait', rental.name, seconds],
            env,
          )
          return { talk, line: talk.next() }
        }
        const late = await (await wait('1')).line
        expect(late).toMatchObject({ error: 'WaitTimeout', state: 'Pending', cost: '0.00' })
        const perHour = `$${Number(rental.pricePerHourUsd).toFixed(2)}`
        expect(late.text).toContain(perHour)
        expect(late.text).toContain(rental.name)
        const failing = await wait('300')
        await call('DELETE', `/v2/rentals/${rental.id}`)
        const failed = await failing.line
        const { body: ended } = await call('GET', `/v2/rentals/${rental.id}`)
        expect(failed).toMatchObject({ error: 'WaitFailed', reason: ended.statusReason })
        expect(failed.state).toMatch(/^Terminat/)
      } finally {
        await slow.close()
      }
    },
  )

  test('P42: two builds give the same bytes, and twine accepts them', { timeout: START_MS }, async () => {
    const again = await buildPackage(tools, path.join(folder, 'again'))
    for (const [one, other] of [
      [wheel, again.wheel],
      [sdist, again.sdist],
    ] as const) {
      expect(path.basename(other)).toBe(path.basename(one))
      expect(await digestOf(other)).toBe(await digestOf(one))
    }
    expect(await tools.tool('twine', ['check', '--strict', wheel, sdist], folder)).toMatch(/PASSED[^]*PASSED/)
  })

  test(
    'P42: the wheel of the sdist is that of the checkout, and has all of the generated code',
    { timeout: START_MS },
    async () => {
      const unpacked = path.join(folder, 'unpacked')
      await mkdir(unpacked)
      await promisify(execFile)('tar', ['-xzf', sdist, '-C', unpacked, '--strip-components', '1'])
      const out = path.join(folder, 'from-sdist')
      await tools.tool('build', ['--no-isolation', '--wheel', '--outdir', out, unpacked], folder)
      const [name = ''] = await readdir(out)
      expect(await digestOf(path.join(out, name))).toBe(await digestOf(wheel))
    },
  )

  test('P42: importing the package loads what every program needs, and nothing else', async () => {
    const measure =
      'import sys, time; start = time.process_time(); from berth_client import Client; took = time.process_time() - start; Client()'
    const loaded = `${measure}; print(took, *sorted(name for name in ("httpx2", "pydantic", "openai", "asyncio", "berth_client._aio.client", "berth_client._generated.models") if name in sys.modules))`
    // The first import also compiles the modules.
    await python(program, ['-c', loaded], { PYTHONDONTWRITEBYTECODE: '' }, folder)
    const [took, ...modules] = (await python(program, ['-c', loaded], {}, folder)).trim().split(' ')
    process.stdout.write(`from berth_client import Client: ${Math.round(Number(took) * 1_000)} ms of CPU time\n`)
    expect(modules).toEqual(
      expect.not.arrayContaining(['pydantic', 'openai', 'berth_client._aio.client', 'berth_client._generated.models']),
    )
    expect(modules).toContain('httpx2')
  })
})

const wrongProgram = `from berth_client import Client

client = Client()
client.rentals.create(kind="container", gpu_model="h100")
client.rentals.create(kind="container", gpu_model="h100", gpu_count="one")
name: int = client.rentals.get(1).name
`

/** All Python of a page is one program. */
async function programOf(page: string): Promise<string> {
  const text = await readFile(page, 'utf8')
  const blocks = [...text.matchAll(/^```python\n(.*?)^```$/gms)].map(([, code = '']) => code)
  expect(blocks.length).toBeGreaterThan(2)
  return blocks.join('\n')
}

async function digestOf(file: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
}
