/*
 * The classes of events that npud's log has, by the MESSAGE_ID= that their lines carry in the
 * journal. systemd/npud.catalog explains each of them for `journalctl -x`. An id stands for its
 * class for ever.
 */
#pragma once

#define MESSAGE_READY              "9fb93534081c4253b1e273a87984a8ab"
#define MESSAGE_ENDING             "db149e4714be49abb93fe42eabd2d9f2"
#define MESSAGE_CLIENT_FAULT       "3994693ea3ae4e689323451b4a95902a"
#define MESSAGE_CLIENT_LIMIT       "1aa615a94b6a4551a061ae14a1dbf721"
#define MESSAGE_PROTOCOL           "8b3a15353f134b709856c32a687b253b"
#define MESSAGE_SESSION_BEGAN      "0f507dda4dce4a0ba8c6fb59f37ee265"
#define MESSAGE_SESSION_DIED       "8b327eb8211549b18ac025c34dc47efa"
#define MESSAGE_SESSION_GONE       "278d223469a140ea80aa555bbf99ad5e"
#define MESSAGE_SESSION_ENDED      "a7213dfe89324293a0dd5386c9cf0800"
#define MESSAGE_SESSION_GIVEN_UP   "67d1191fda8040bd919e9bc7f4a02d92"
#define MESSAGE_SERVER_ENDED       "fd95588c5e4e410bb14cf51964cd1715"
#define MESSAGE_SERVER_HANGS       "d561cab77e4d473db44d04cb5f0f2c02"
#define MESSAGE_KEEPER_ENDED       "3c85b930b9f0420f929e04e213311e91"
#define MESSAGE_SESSIONS_LOST      "1b0b5a92ca9f4dae85e1fb5bb643edf4"
#define MESSAGE_NO_SUCCESSOR       "fece6b989a324eaeb86c67b35a0ac810"
#define MESSAGE_UPGRADE_BEGINS     "5da24106869b4c3d819274d465ee28de"
#define MESSAGE_UPGRADE_REFUSED    "4bcee26a6a9d449c8954549c429fdbf7"
#define MESSAGE_UPGRADE_TAKEN_BACK "56c8a7f9757f4125ad53b107073391a5"
#define MESSAGE_CONFIG_READ        "3623ac6122ae4903a20425dd2e67dbe9"
#define MESSAGE_CONFIG_WRONG       "cae33afe57804cdb9f642b78f0088cfc"
#define MESSAGE_FDS_EXHAUSTED      "76e2507bc7b14aa893655fc9e35d6c11"
#define MESSAGE_DEVICE_LOST        "671b5a965693463285c30e119edb8d92"
#define MESSAGE_DEVICE_BACK        "b547e0d0e6bd4e98892806abfdaada93"
#define MESSAGE_EXECUTOR_STARTED   "9a5abb914c1643669fa44f510fabc7f9"
#define MESSAGE_EXECUTOR_ENDED     "91a7e02e2fcc4bcc8f35e667be89077e"
#define MESSAGE_INJECTION          "92d254d7fe0340e4808f532c9af26054"
#define MESSAGE_LINES_LOST         "17d104f66e3342b0b3e45fcec83c2a8d"
