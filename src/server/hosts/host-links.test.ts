import { expect, test } from 'vitest'
import { makeHostLinks, type HostLink } from './host-links.ts'

function link(): HostLink {
  return { open: () => expect.fail('not opened here'), replace: () => {} }
}

test('a machine of an engine is reached through its engine, even if an agent has its name', () => {
  const [node, agent, other] = [link(), link(), link()]
  const links = makeHostLinks([{ ids: () => ['here-gpu-1'], get: (id) => (id === 'here-gpu-1' ? node : undefined) }])
  links.add('here-gpu-1', agent)
  links.add('host-1', other)
  expect(links.get('here-gpu-1')).toBe(node)
  expect(links.get('host-1')).toBe(other)
})
