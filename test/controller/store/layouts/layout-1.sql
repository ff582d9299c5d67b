-- A store of layout 1 as the version of that layout wrote it: schema and rows.
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    directory TEXT NOT NULL,
    generation INTEGER NOT NULL,
    container TEXT,                  -- ContainerIdentity as JSON; null until it was made
    wanted TEXT NOT NULL,            -- running | stopped | removed
    unready TEXT,                    -- why it may take no turn, or null
    journal_id TEXT,                 -- of the bridge's journal that was followed last
    applied INTEGER NOT NULL,        -- last event of that journal that took effect here
    created_at REAL NOT NULL
  ) STRICT;
CREATE TABLE members (
    id TEXT PRIMARY KEY,
    sandbox TEXT NOT NULL REFERENCES sandboxes(id),
    cli TEXT NOT NULL,
    options TEXT NOT NULL,           -- MemberOptions as JSON
    submissions INTEGER NOT NULL,    -- numbers given so far
    settled_turns INTEGER NOT NULL,
    locator TEXT,                    -- Locator as JSON; null until a turn has settled
    pending_locator TEXT,            -- settled, and its id not verified yet
    created_at REAL NOT NULL
  ) STRICT;
CREATE INDEX members_by_sandbox ON members(sandbox);
CREATE TABLE locator_history (
    member TEXT NOT NULL REFERENCES members(id),
    settled_turns INTEGER NOT NULL,
    locator TEXT NOT NULL,
    at REAL NOT NULL
  ) STRICT;
CREATE INDEX locator_history_by_member ON locator_history(member, settled_turns);
CREATE TABLE native_ids (
    sandbox TEXT NOT NULL,
    native_id TEXT NOT NULL,
    member TEXT NOT NULL REFERENCES members(id),
    PRIMARY KEY (sandbox, native_id)
  ) STRICT, WITHOUT ROWID;
CREATE TABLE turns (
    id TEXT PRIMARY KEY,
    member TEXT NOT NULL REFERENCES members(id),
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    text_sha256 TEXT NOT NULL,
    text_bytes INTEGER NOT NULL,
    settlement TEXT,                 -- Settlement as JSON, once it has ended
    submitted_at REAL NOT NULL,
    ended_at REAL,
    UNIQUE (member, number)
  ) STRICT;
CREATE INDEX open_turns ON turns(member) WHERE ended_at IS NULL;
CREATE TABLE turn_events (
    turn TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (turn, seq)
  ) STRICT, WITHOUT ROWID;
CREATE TABLE attestations (
    sandbox TEXT NOT NULL,
    at REAL NOT NULL,
    reasons TEXT NOT NULL            -- JSON list; empty means ready
  ) STRICT;
CREATE INDEX attestations_by_sandbox ON attestations(sandbox, at);
CREATE TABLE audit (at REAL NOT NULL, what TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL) STRICT;
INSERT INTO meta VALUES ('fence', '1');
INSERT INTO meta VALUES ('id', '16923250d49e09cfc86e4782d2e51c2c');
INSERT INTO sandboxes VALUES ('box-1', 'docker', '/store/s/box-1', 1, '{"sandboxId":"box-1","generation":1,"containerId":"96fb257c5fbb68bc07526e764fa33149cfb162e841a405f607c6e3a85e4d9093","imageId":"sha256:6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d","helperSha256":"e81d3b0e9d82feaaf5f6e55bdff24731d7eee08632ffa63801e6397290c5d20a"}', 'running', NULL, 'journal-box-1', 41, 1700000001000);
INSERT INTO sandboxes VALUES ('box-2', 'process', '/store/s/box-2', 1, '{"sandboxId":"box-2","generation":1,"containerId":"process-box-2","imageId":"none","helperSha256":"e81d3b0e9d82feaaf5f6e55bdff24731d7eee08632ffa63801e6397290c5d20a"}', 'running', NULL, 'journal-box-2', 15, 1700000005000);
INSERT INTO sandboxes VALUES ('box-3', 'docker', '/store/s/box-3', 1, NULL, 'stopped', 'the helper''s bytes differ from the pinned ones', NULL, 0, 1700000009000);
INSERT INTO members VALUES ('m-1', 'box-1', 'opencode', '{"model":{"name":"m1","protocol":"chat-completions","contextTokens":100000,"outputTokens":8000},"permissions":{"default":"allow","rules":[{"tool":"bash","pattern":"git *","action":"ask"}],"askLimitMs":60000,"askDefault":"deny"},"background":false}', 3, 3, '{"format":1,"cli":"opencode","cliVersion":"1.18.33","nativeId":"ses_a","directory":"/workspace","container":{"sandboxId":"box-1","generation":1,"containerId":"96fb257c5fbb68bc07526e764fa33149cfb162e841a405f607c6e3a85e4d9093","imageId":"sha256:6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d","helperSha256":"e81d3b0e9d82feaaf5f6e55bdff24731d7eee08632ffa63801e6397290c5d20a"},"settledTurns":3,"tail":{"role":"assistant","id":"msg_3"}}', NULL, 1700000012000);
INSERT INTO members VALUES ('m-2', 'box-1', 'kilo', '{"model":{"name":"m1","protocol":"chat-completions","contextTokens":100000,"outputTokens":8000},"permissions":{"default":"allow","rules":[{"tool":"bash","pattern":"git *","action":"ask"}],"askLimitMs":60000,"askDefault":"deny"},"background":true}', 2, 2, '{"format":1,"cli":"kilo","cliVersion":"7.7.7","nativeId":"ses_b","directory":"/workspace","container":{"sandboxId":"box-1","generation":1,"containerId":"96fb257c5fbb68bc07526e764fa33149cfb162e841a405f607c6e3a85e4d9093","imageId":"sha256:6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d","helperSha256":"e81d3b0e9d82feaaf5f6e55bdff24731d7eee08632ffa63801e6397290c5d20a"},"settledTurns":1,"tail":{"role":"assistant","id":"msg_1"}}', '{"format":1,"cli":"kilo","cliVersion":"7.7.7","nativeId":"ses_b","directory":"/workspace","container":{"sandboxId":"box-1","generation":1,"containerId":"96fb257c5fbb68bc07526e764fa33149cfb162e841a405f607c6e3a85e4d9093","imageId":"sha256:6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d","helperSha256":"e81d3b0e9d82feaaf5f6e55bdff24731d7eee08632ffa63801e6397290c5d20a"},"settledTurns":2,"tail":{"role":"assistant","id":"msg_2"}}', 1700000014000);
INSERT INTO members VALUES ('m-3', 'box-2', 'opencode', '{"model":{"name":"m1","protocol":"chat-completions","contextTokens":100000,"outputTokens":8000},"permissions":{"default":"allow","rules":[{"tool":"bash","pattern":"git *","action":"ask"}],"askLimitMs":60000,"askDefault":"deny"},"background":false}', 3, 1, '{"format":1,"cli":"opencode","cliVersion":"1.18.33","nativeId":"ses_c","directory":"/workspace","container":{"sandboxId":"box-2","generation":1,"containerId":"process-box-2","imageId":"none","helperSha256":"e81d3b0e9d82feaaf5f6e55bdff24731d7eee08632ffa63801e6397290c5d20a"},"settledTurns":1,"tail":{"role":"assistant","id":"msg_2"}}', NULL, 1700000016000);
INSERT INTO members VALUES ('m-4', 'box-2', 'opencode', '{"model":{"name":"m1","protocol":"chat-completions","contextTokens":100000,"outputTokens":8000},"permissions":{"default":"allow","rules":[{"tool":"bash","pattern":"git *","action":"ask"}],"askLimitMs":60000,"askDefault":"deny"},"background":false}', 1, 0, NULL, NULL, 1700000018000);
INSERT INTO locator_history VALUES ('m-1', 1, '{"format":1,"cli":"opencode","cliVersion":"1.18.33","nativeId":"ses_a","directory":"/workspace","container":{"sandboxId":"box-1","generation":1,"containerId":"96fb257c5fbb68bc07526e764fa33149cfb162e841a405f607c6e3a85e4d9093","imageId":"sha256:6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d","helperSha256":"e81d3b0e9d82feaaf5f6e55bdff24731d7eee08632ffa63801e6397290c5d20a"},"settledTurns":1,"tail":{"role":"assistant","id":"msg_1"}}', 1700000022090);
INSERT INTO locator_history VALUES ('m-1', 2, '{"format":1,"cli":"opencode","cliVersion":"1.18.33","nativeId":"ses_a","directory":"/workspace","container":{"sandboxId":"box-1","generation":1,"containerId":"96fb257c5fbb68bc07526e764fa33149cfb162e841a405f607c6e3a85e4d9093","imageId":"sha256:6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d","helperSha256":"e81d3b0e9d82feaaf5f6e55bdff24731d7eee08632ffa63801e6397290c5d20a"},"settledTurns":2,"tail":{"role":"assistant","id":"msg_2"}}', 1700000025170);
INSERT INTO locator_history VALUES ('m-1', 3, '{"format":1,"cli":"opencode","cliVersion":"1.18.33","nativeId":"ses_a","directory":"/workspace","container":{"sandboxId":"box-1","generation":1,"containerId":"96fb257c5fbb68bc07526e764fa33149cfb162e841a405f607c6e3a85e4d9093","imageId":"sha256:6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d","helperSha256":"e81d3b0e9d82feaaf5f6e55bdff24731d7eee08632ffa63801e6397290c5d20a"},"settledTurns":3,"tail":{"role":"assistant","id":"msg_3"}}', 1700000028250);
INSERT INTO locator_history VALUES ('m-2', 1, '{"format":1,"cli":"kilo","cliVersion":"7.7.7","nativeId":"ses_b","directory":"/workspace","container":{"sandboxId":"box-1","generation":1,"containerId":"96fb257c5fbb68bc07526e764fa33149cfb162e841a405f607c6e3a85e4d9093","imageId":"sha256:6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d","helperSha256":"e81d3b0e9d82feaaf5f6e55bdff24731d7eee08632ffa63801e6397290c5d20a"},"settledTurns":1,"tail":{"role":"assistant","id":"msg_1"}}', 1700000031330);
INSERT INTO locator_history VALUES ('m-3', 1, '{"format":1,"cli":"opencode","cliVersion":"1.18.33","nativeId":"ses_c","directory":"/workspace","container":{"sandboxId":"box-2","generation":1,"containerId":"process-box-2","imageId":"none","helperSha256":"e81d3b0e9d82feaaf5f6e55bdff24731d7eee08632ffa63801e6397290c5d20a"},"settledTurns":1,"tail":{"role":"assistant","id":"msg_2"}}', 1700000038490);
INSERT INTO native_ids VALUES ('box-1', 'ses_a', 'm-1');
INSERT INTO native_ids VALUES ('box-1', 'ses_b', 'm-2');
INSERT INTO native_ids VALUES ('box-2', 'ses_c', 'm-3');
INSERT INTO native_ids VALUES ('box-2', 'ses_d', 'm-4');
INSERT INTO turns VALUES ('turn-a1', 'm-1', 1, 'settled', '9e5969adf87e6c93b7d3759003d012c557c345fc8fd6818a0e9951cc04d547da', 7, '{"outcome":"completed","settled":true,"context":"NEW","contextReason":"the resident process took the last turn","session":{"nativeId":"ses_a","directory":"/workspace","tail":{"role":"assistant","id":"msg_1"},"isVerified":true},"processGeneration":1,"parts":["Größe"," 🦑"],"textIsCut":false,"textIsPartial":false,"usage":{"source":"cli","inputTokens":10,"outputTokens":5,"reasoningTokens":null,"cacheReadTokens":0,"cacheWriteTokens":3},"evidence":[{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}],"timings":{"admitMs":1,"prepareMs":0.5,"gateMs":3,"submitMs":4,"firstEventMs":20,"settleMs":900,"verifyMs":6,"totalMs":null},"error":null,"keepsProcess":true}', 1700000020010, 1700000021090);
INSERT INTO turns VALUES ('turn-a2', 'm-1', 2, 'settled', '3b20428c18cb7d5685db8cd24cc3a471b4a47e97ffbacecde63a8e1ac2867186', 7, '{"outcome":"failed","settled":true,"context":"LIVE","contextReason":"the resident process took the last turn","session":{"nativeId":"ses_a","directory":"/workspace","tail":{"role":"assistant","id":"msg_2"},"isVerified":true},"processGeneration":1,"parts":["Größe"," 🦑"],"textIsCut":false,"textIsPartial":false,"usage":{"source":"cli","inputTokens":10,"outputTokens":5,"reasoningTokens":null,"cacheReadTokens":0,"cacheWriteTokens":3},"evidence":[{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}],"timings":{"admitMs":1,"prepareMs":0.5,"gateMs":3,"submitMs":4,"firstEventMs":20,"settleMs":900,"verifyMs":6,"totalMs":null},"error":{"code":"NATIVE_FAILED","message":"provider said no","details":{}},"keepsProcess":true}', 1700000023090, 1700000024170);
INSERT INTO turns VALUES ('turn-a3', 'm-1', 3, 'settled', 'bba2e8b5bee8918ce9c12d0ba831e6b13bcf713fed61323a91e82c4fbf9f0f08', 7, '{"outcome":"aborted","settled":true,"context":"LIVE","contextReason":"the resident process took the last turn","session":{"nativeId":"ses_a","directory":"/workspace","tail":{"role":"assistant","id":"msg_3"},"isVerified":true},"processGeneration":1,"parts":["Größe"," 🦑"],"textIsCut":false,"textIsPartial":false,"usage":{"source":"cli","inputTokens":10,"outputTokens":5,"reasoningTokens":null,"cacheReadTokens":0,"cacheWriteTokens":3},"evidence":[{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}],"timings":{"admitMs":1,"prepareMs":0.5,"gateMs":3,"submitMs":4,"firstEventMs":20,"settleMs":900,"verifyMs":6,"totalMs":null},"error":null,"keepsProcess":true}', 1700000026170, 1700000027250);
INSERT INTO turns VALUES ('turn-b1', 'm-2', 1, 'settled', 'b75b369b5f24118a3d71f070932f358bba0d8b8cbc00f69b3fbb537f780cdced', 7, '{"outcome":"completed","settled":true,"context":"NEW","contextReason":"the resident process took the last turn","session":{"nativeId":"ses_b","directory":"/workspace","tail":{"role":"assistant","id":"msg_1"},"isVerified":true},"processGeneration":1,"parts":["Größe"," 🦑"],"textIsCut":false,"textIsPartial":false,"usage":{"source":"cli","inputTokens":10,"outputTokens":5,"reasoningTokens":null,"cacheReadTokens":0,"cacheWriteTokens":3},"evidence":[{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}],"timings":{"admitMs":1,"prepareMs":0.5,"gateMs":3,"submitMs":4,"firstEventMs":20,"settleMs":900,"verifyMs":6,"totalMs":null},"error":null,"keepsProcess":true}', 1700000029250, 1700000030330);
INSERT INTO turns VALUES ('turn-b2', 'm-2', 2, 'settled', 'dc6d96943f3f8eca54d310f721fcc6c68ac999efcbe2dc3c730c27891cade421', 7, '{"outcome":"completed","settled":true,"context":"LIVE","contextReason":"the resident process took the last turn","session":{"nativeId":"ses_b","directory":"/workspace","tail":{"role":"assistant","id":"msg_2"},"isVerified":false},"processGeneration":1,"parts":["Größe"," 🦑"],"textIsCut":false,"textIsPartial":false,"usage":{"source":"cli","inputTokens":10,"outputTokens":5,"reasoningTokens":null,"cacheReadTokens":0,"cacheWriteTokens":3},"evidence":[{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}],"timings":{"admitMs":1,"prepareMs":0.5,"gateMs":3,"submitMs":4,"firstEventMs":20,"settleMs":900,"verifyMs":6,"totalMs":null},"error":null,"keepsProcess":true}', 1700000032330, 1700000033410);
INSERT INTO turns VALUES ('turn-c1', 'm-3', 1, 'not_sent', 'd0f631ca1ddba8db3bcfcb9e057cdc98d0379f1bee00e75a545147a27dadd982', 2, '{"outcome":"not_sent","settled":false,"context":null,"contextReason":"","session":null,"processGeneration":null,"parts":[],"textIsCut":false,"textIsPartial":false,"usage":{"source":"none","inputTokens":null,"outputTokens":null,"reasoningTokens":null,"cacheReadTokens":null,"cacheWriteTokens":null},"evidence":[{"what":"not_submitted","source":"host","at":1700000034410,"detail":"the bridge did not connect within 20000 ms","processGeneration":null,"subscription":null,"sequence":null}],"timings":{"admitMs":null,"prepareMs":null,"gateMs":null,"submitMs":null,"firstEventMs":null,"settleMs":null,"verifyMs":null,"totalMs":null},"error":{"code":"BRIDGE_GONE","message":"the bridge did not connect within 20000 ms","details":{}},"keepsProcess":false}', 1700000034410, 1700000035410);
INSERT INTO turns VALUES ('turn-c2', 'm-3', 2, 'settled', 'c8a435fb499142fca0a9334afa9bc9556668861f1ea5a859c41441d959485bf4', 7, '{"outcome":"completed","settled":true,"context":"NEW","contextReason":"the resident process took the last turn","session":{"nativeId":"ses_c","directory":"/workspace","tail":{"role":"assistant","id":"msg_2"},"isVerified":true},"processGeneration":1,"parts":["Größe"," 🦑"],"textIsCut":false,"textIsPartial":false,"usage":{"source":"cli","inputTokens":10,"outputTokens":5,"reasoningTokens":null,"cacheReadTokens":0,"cacheWriteTokens":3},"evidence":[{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}],"timings":{"admitMs":1,"prepareMs":0.5,"gateMs":3,"submitMs":4,"firstEventMs":20,"settleMs":900,"verifyMs":6,"totalMs":null},"error":null,"keepsProcess":true}', 1700000036410, 1700000037490);
INSERT INTO turns VALUES ('turn-c3', 'm-3', 3, 'unknown', '7c1c97df17c066924822b0af09a65251554962c61e23329aed04cd19020dc3b8', 2, '{"outcome":"unknown","settled":false,"context":null,"contextReason":"","session":null,"processGeneration":null,"parts":[],"textIsCut":false,"textIsPartial":true,"usage":{"source":"none","inputTokens":null,"outputTokens":null,"reasoningTokens":null,"cacheReadTokens":null,"cacheWriteTokens":null},"evidence":[{"what":"sandbox_gone","source":"host","at":1700000039490,"detail":"the sandbox is missing; nobody saw the turn''s end","processGeneration":null,"subscription":null,"sequence":null}],"timings":{"admitMs":null,"prepareMs":null,"gateMs":null,"submitMs":null,"firstEventMs":null,"settleMs":null,"verifyMs":null,"totalMs":null},"error":{"code":"DELIVERY_UNKNOWN","message":"the sandbox is missing; nobody saw the turn''s end","details":{}},"keepsProcess":false}', 1700000039490, 1700000040490);
INSERT INTO turns VALUES ('turn-d1', 'm-4', 1, 'delivered', '2383af30b58428e5a5e85a09c16242bf67298bf79887b66d982f485e71eceb1a', 7, NULL, 1700000041490, NULL);
INSERT INTO turn_events VALUES ('turn-a1', 2, 1700000020020, '{"type":"turn.accepted","member":"m-1","turn":"turn-a1","number":1}');
INSERT INTO turn_events VALUES ('turn-a1', 3, 1700000020030, '{"type":"turn.context","member":"m-1","turn":"turn-a1","status":"NEW","reason":"the first turn","nativeId":"ses_a"}');
INSERT INTO turn_events VALUES ('turn-a1', 4, 1700000020040, '{"type":"turn.gated","member":"m-1","turn":"turn-a1","evidence":{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}}');
INSERT INTO turn_events VALUES ('turn-a1', 5, 1700000020050, '{"type":"turn.submitting","member":"m-1","turn":"turn-a1","nativeMessage":"msg_u1"}');
INSERT INTO turn_events VALUES ('turn-a1', 6, 1700000020060, '{"type":"turn.delivered","member":"m-1","turn":"turn-a1"}');
INSERT INTO turn_events VALUES ('turn-a1', 7, 1700000020070, '{"type":"turn.permission_asked","member":"m-1","turn":"turn-a1","request":{"request":"per_1","session":"ses_1","permission":"bash","patterns":["ls *"]},"ancestry":[{"session":"ses_1","title":"explore"}],"action":"ask","deadlineAt":1700000000000}');
INSERT INTO turn_events VALUES ('turn-a1', 8, 1700000020080, '{"type":"turn.permission_closed","member":"m-1","turn":"turn-a1","request":"per_1","session":"ses_1","result":"confirmed","reply":"once","by":"policy","detail":""}');
INSERT INTO turn_events VALUES ('turn-a2', 10, 1700000023100, '{"type":"turn.accepted","member":"m-1","turn":"turn-a2","number":2}');
INSERT INTO turn_events VALUES ('turn-a2', 11, 1700000023110, '{"type":"turn.context","member":"m-1","turn":"turn-a2","status":"LIVE","reason":"the first turn","nativeId":"ses_a"}');
INSERT INTO turn_events VALUES ('turn-a2', 12, 1700000023120, '{"type":"turn.gated","member":"m-1","turn":"turn-a2","evidence":{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}}');
INSERT INTO turn_events VALUES ('turn-a2', 13, 1700000023130, '{"type":"turn.submitting","member":"m-1","turn":"turn-a2","nativeMessage":"msg_u2"}');
INSERT INTO turn_events VALUES ('turn-a2', 14, 1700000023140, '{"type":"turn.delivered","member":"m-1","turn":"turn-a2"}');
INSERT INTO turn_events VALUES ('turn-a2', 15, 1700000023150, '{"type":"turn.permission_asked","member":"m-1","turn":"turn-a2","request":{"request":"per_1","session":"ses_1","permission":"bash","patterns":["ls *"]},"ancestry":[{"session":"ses_1","title":"explore"}],"action":"ask","deadlineAt":1700000000000}');
INSERT INTO turn_events VALUES ('turn-a2', 16, 1700000023160, '{"type":"turn.permission_closed","member":"m-1","turn":"turn-a2","request":"per_1","session":"ses_1","result":"confirmed","reply":"once","by":"policy","detail":""}');
INSERT INTO turn_events VALUES ('turn-a3', 18, 1700000026180, '{"type":"turn.accepted","member":"m-1","turn":"turn-a3","number":3}');
INSERT INTO turn_events VALUES ('turn-a3', 19, 1700000026190, '{"type":"turn.context","member":"m-1","turn":"turn-a3","status":"LIVE","reason":"the first turn","nativeId":"ses_a"}');
INSERT INTO turn_events VALUES ('turn-a3', 20, 1700000026200, '{"type":"turn.gated","member":"m-1","turn":"turn-a3","evidence":{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}}');
INSERT INTO turn_events VALUES ('turn-a3', 21, 1700000026210, '{"type":"turn.submitting","member":"m-1","turn":"turn-a3","nativeMessage":"msg_u3"}');
INSERT INTO turn_events VALUES ('turn-a3', 22, 1700000026220, '{"type":"turn.delivered","member":"m-1","turn":"turn-a3"}');
INSERT INTO turn_events VALUES ('turn-a3', 23, 1700000026230, '{"type":"turn.permission_asked","member":"m-1","turn":"turn-a3","request":{"request":"per_1","session":"ses_1","permission":"bash","patterns":["ls *"]},"ancestry":[{"session":"ses_1","title":"explore"}],"action":"ask","deadlineAt":1700000000000}');
INSERT INTO turn_events VALUES ('turn-a3', 24, 1700000026240, '{"type":"turn.permission_closed","member":"m-1","turn":"turn-a3","request":"per_1","session":"ses_1","result":"confirmed","reply":"once","by":"policy","detail":""}');
INSERT INTO turn_events VALUES ('turn-b1', 26, 1700000029260, '{"type":"turn.accepted","member":"m-2","turn":"turn-b1","number":1}');
INSERT INTO turn_events VALUES ('turn-b1', 27, 1700000029270, '{"type":"turn.context","member":"m-2","turn":"turn-b1","status":"NEW","reason":"the first turn","nativeId":"ses_b"}');
INSERT INTO turn_events VALUES ('turn-b1', 28, 1700000029280, '{"type":"turn.gated","member":"m-2","turn":"turn-b1","evidence":{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}}');
INSERT INTO turn_events VALUES ('turn-b1', 29, 1700000029290, '{"type":"turn.submitting","member":"m-2","turn":"turn-b1","nativeMessage":"msg_u1"}');
INSERT INTO turn_events VALUES ('turn-b1', 30, 1700000029300, '{"type":"turn.delivered","member":"m-2","turn":"turn-b1"}');
INSERT INTO turn_events VALUES ('turn-b1', 31, 1700000029310, '{"type":"turn.permission_asked","member":"m-2","turn":"turn-b1","request":{"request":"per_1","session":"ses_1","permission":"bash","patterns":["ls *"]},"ancestry":[{"session":"ses_1","title":"explore"}],"action":"ask","deadlineAt":1700000000000}');
INSERT INTO turn_events VALUES ('turn-b1', 32, 1700000029320, '{"type":"turn.permission_closed","member":"m-2","turn":"turn-b1","request":"per_1","session":"ses_1","result":"confirmed","reply":"once","by":"policy","detail":""}');
INSERT INTO turn_events VALUES ('turn-b2', 34, 1700000032340, '{"type":"turn.accepted","member":"m-2","turn":"turn-b2","number":2}');
INSERT INTO turn_events VALUES ('turn-b2', 35, 1700000032350, '{"type":"turn.context","member":"m-2","turn":"turn-b2","status":"LIVE","reason":"the first turn","nativeId":"ses_b"}');
INSERT INTO turn_events VALUES ('turn-b2', 36, 1700000032360, '{"type":"turn.gated","member":"m-2","turn":"turn-b2","evidence":{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}}');
INSERT INTO turn_events VALUES ('turn-b2', 37, 1700000032370, '{"type":"turn.submitting","member":"m-2","turn":"turn-b2","nativeMessage":"msg_u2"}');
INSERT INTO turn_events VALUES ('turn-b2', 38, 1700000032380, '{"type":"turn.delivered","member":"m-2","turn":"turn-b2"}');
INSERT INTO turn_events VALUES ('turn-b2', 39, 1700000032390, '{"type":"turn.permission_asked","member":"m-2","turn":"turn-b2","request":{"request":"per_1","session":"ses_1","permission":"bash","patterns":["ls *"]},"ancestry":[{"session":"ses_1","title":"explore"}],"action":"ask","deadlineAt":1700000000000}');
INSERT INTO turn_events VALUES ('turn-b2', 40, 1700000032400, '{"type":"turn.permission_closed","member":"m-2","turn":"turn-b2","request":"per_1","session":"ses_1","result":"confirmed","reply":"once","by":"policy","detail":""}');
INSERT INTO turn_events VALUES ('turn-c2', 1, 1700000036420, '{"type":"turn.accepted","member":"m-3","turn":"turn-c2","number":2}');
INSERT INTO turn_events VALUES ('turn-c2', 2, 1700000036430, '{"type":"turn.context","member":"m-3","turn":"turn-c2","status":"LIVE","reason":"the first turn","nativeId":"ses_c"}');
INSERT INTO turn_events VALUES ('turn-c2', 3, 1700000036440, '{"type":"turn.gated","member":"m-3","turn":"turn-c2","evidence":{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}}');
INSERT INTO turn_events VALUES ('turn-c2', 4, 1700000036450, '{"type":"turn.submitting","member":"m-3","turn":"turn-c2","nativeMessage":"msg_u2"}');
INSERT INTO turn_events VALUES ('turn-c2', 5, 1700000036460, '{"type":"turn.delivered","member":"m-3","turn":"turn-c2"}');
INSERT INTO turn_events VALUES ('turn-c2', 6, 1700000036470, '{"type":"turn.permission_asked","member":"m-3","turn":"turn-c2","request":{"request":"per_1","session":"ses_1","permission":"bash","patterns":["ls *"]},"ancestry":[{"session":"ses_1","title":"explore"}],"action":"ask","deadlineAt":1700000000000}');
INSERT INTO turn_events VALUES ('turn-c2', 7, 1700000036480, '{"type":"turn.permission_closed","member":"m-3","turn":"turn-c2","request":"per_1","session":"ses_1","result":"confirmed","reply":"once","by":"policy","detail":""}');
INSERT INTO turn_events VALUES ('turn-d1', 9, 1700000041500, '{"type":"turn.accepted","member":"m-4","turn":"turn-d1","number":1}');
INSERT INTO turn_events VALUES ('turn-d1', 10, 1700000041510, '{"type":"turn.context","member":"m-4","turn":"turn-d1","status":"NEW","reason":"the first turn","nativeId":"ses_d"}');
INSERT INTO turn_events VALUES ('turn-d1', 11, 1700000041520, '{"type":"turn.gated","member":"m-4","turn":"turn-d1","evidence":{"what":"session.idle","source":"stream","processGeneration":1,"subscription":2,"sequence":17,"at":1700000000000,"detail":"root session"}}');
INSERT INTO turn_events VALUES ('turn-d1', 12, 1700000041530, '{"type":"turn.submitting","member":"m-4","turn":"turn-d1","nativeMessage":"msg_u1"}');
INSERT INTO turn_events VALUES ('turn-d1', 13, 1700000041540, '{"type":"turn.delivered","member":"m-4","turn":"turn-d1"}');
INSERT INTO turn_events VALUES ('turn-d1', 14, 1700000041550, '{"type":"turn.permission_asked","member":"m-4","turn":"turn-d1","request":{"request":"per_1","session":"ses_1","permission":"bash","patterns":["ls *"]},"ancestry":[{"session":"ses_1","title":"explore"}],"action":"ask","deadlineAt":1700000000000}');
INSERT INTO turn_events VALUES ('turn-d1', 15, 1700000041560, '{"type":"turn.permission_closed","member":"m-4","turn":"turn-d1","request":"per_1","session":"ses_1","result":"confirmed","reply":"once","by":"policy","detail":""}');
INSERT INTO attestations VALUES ('box-3', 1700000011000, '["the helper''s bytes differ from the pinned ones"]');
INSERT INTO audit VALUES (1700000002000, 'sandbox.create', 'box-1', 'docker');
INSERT INTO audit VALUES (1700000003000, 'sandbox.bind', 'box-1', '96fb257c5fbb68bc07526e764fa33149cfb162e841a405f607c6e3a85e4d9093');
INSERT INTO audit VALUES (1700000004000, 'sandbox.wanted', 'box-1', 'running');
INSERT INTO audit VALUES (1700000006000, 'sandbox.create', 'box-2', 'process');
INSERT INTO audit VALUES (1700000007000, 'sandbox.bind', 'box-2', 'process-box-2');
INSERT INTO audit VALUES (1700000008000, 'sandbox.wanted', 'box-2', 'running');
INSERT INTO audit VALUES (1700000010000, 'sandbox.create', 'box-3', 'docker');
INSERT INTO audit VALUES (1700000013000, 'member.create', 'm-1', 'box-1');
INSERT INTO audit VALUES (1700000015000, 'member.create', 'm-2', 'box-1');
INSERT INTO audit VALUES (1700000017000, 'member.create', 'm-3', 'box-2');
INSERT INTO audit VALUES (1700000019000, 'member.create', 'm-4', 'box-2');
PRAGMA user_version = 1;
