/** Startup scripts for clouds without cloud-init. */
import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import type { Program } from '../../contract/agent.ts'
import { emptyWorkload, programOf } from '../../domain/workload.ts'
import { sampleSpec } from '../conformance-bench.ts'
import { plainKeys, startupScriptOf } from './user-data.ts'

const spec = sampleSpec()
const program = (changes: Partial<Program>): Program => ({ ...programOf(emptyWorkload), ...changes })

test.each([
  ['no program', undefined],
  ['an empty program', program({})],
  ['options', program({ env: { A: "it's" }, onStart: 'echo started', userData: '#!/bin/bash\necho mine\n' })],
])('a startup script with %s is valid shell and has all SSH keys', (_name, given) => {
  const script = startupScriptOf('berth-cafe-1-c0ffee00', spec, given, 'ubuntu') ?? ''
  execFileSync('sh', ['-n'], { input: script })
  for (const key of plainKeys(spec)) expect(script).toContain(key)
  expect(script).toContain('/home/ubuntu/.ssh/authorized_keys')
})

test('user data that only cloud-init understands has no startup script', () => {
  const config = program({ userData: '#cloud-config\npackages: [git]\n' })
  expect(startupScriptOf('berth-cafe-1-c0ffee00', spec, config, 'root')).toBeUndefined()
})
