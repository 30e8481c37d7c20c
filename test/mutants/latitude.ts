import type { Mutant } from './mutant.ts'

export const latitudeMutants: readonly Mutant[] = [
  {
    id: 'La1',
    mistake: 'a month of rent, paid in advance',
    file: 'latitude/cloud.ts',
    find: "billing: 'hourly'",
    replace: "billing: 'monthly'",
  },
  {
    id: 'La2',
    mistake: 'user data that the machine cannot read',
    file: 'latitude/cloud.ts',
    find: "content: Buffer.from(userData).toString('base64'),",
    replace: 'content: userData,',
  },
  {
    id: 'La3',
    mistake: 'a machine that was not installed stays starting',
    file: 'latitude/cloud.ts',
    find: "{ ...base, state: 'failed', failure: 'boot_failed', message: 'Latitude.sh could not install the machine.' }",
    replace: "{ ...base, state: 'starting' }",
  },
  {
    id: 'La4',
    mistake: 'an operating system without a GPU driver',
    file: 'latitude/cloud.ts',
    find: "const OPERATING_SYSTEM = 'ubuntu24_ml_in_a_box'",
    replace: "const OPERATING_SYSTEM = 'ubuntu_24_04_x64_lts'",
  },
  {
    id: 'La5',
    mistake: 'nobody can log in: the login user is another one',
    file: 'latitude/cloud.ts',
    find: "const LOGIN_USER = 'ubuntu'",
    replace: "const LOGIN_USER = 'root'",
  },
  {
    id: 'La6',
    mistake: 'companions beyond the first page are never found, and stay',
    file: 'latitude/pages.ts',
    find: 'data.length < PAGE_SIZE ? undefined : query(read.length + 1)',
    replace: 'read.length > 0 ? undefined : query(read.length + 1)',
  },
  {
    id: 'La7',
    mistake: 'a host name that is too long, from the millionth rental on',
    file: 'latitude/cloud.ts',
    find: 'hostname: hostNameOf(tag),',
    replace: 'hostname: tag,',
  },
  {
    id: 'La8',
    mistake: 'customers pay for a machine that is off',
    file: 'latitude/cloud.ts',
    find: "    case 'on':",
    replace: "    case 'off':\n    case 'on':",
  },
]
